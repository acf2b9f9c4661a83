package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/netcut"
)

// plan is all that a round will do. It follows from the seed and from what the surroundings can do, and from nothing else.
type plan struct {
	seed       uint64
	instances  int
	partitions int
	events     int
	spell      time.Duration // in which the events are produced
	mix        loadgen.Config
	skewed     float64 // share of events whose timestamp is wrong
	rules      []providersim.Rule
	faults     []fault // by the time they begin
}

// surroundings are what the faults of a round can be drawn from.
type surroundings struct {
	brokers  int
	database bool // its server may be killed
}

// fault is one thing that goes wrong for a while.
type fault struct {
	kind   string // a key of faultKinds
	detail string // of a provider's mode or a network fault
	target string // "billing-1", "broker-1", "postgres", "provider", "billing-1/postgres"
	number int    // of the target, from 0
	at     time.Duration
	lasts  time.Duration
	net    netcut.Fault
}

func (f fault) String() string {
	return fmt.Sprintf("%5.1fs +%4.1fs %s %s", f.at.Seconds(), f.lasts.Seconds(), f.target, f.name())
}

// name is what the fault is counted under.
func (f fault) name() string {
	if f.detail == "" {
		return f.kind
	}
	return f.kind + ":" + f.detail
}

// redelivers reports whether a record may be handled again because of the fault, or arrive at the provider late. Up to the
// first such fault a request that came before its record was due has no excuse.
func (f fault) redelivers() bool {
	return f.kind != "provider" && f.kind != "terminate" && f.kind != "read-only"
}

// drawPlan draws a plan.
func drawPlan(seed uint64, s surroundings) plan {
	rnd := rand.New(rand.NewPCG(seed, 0x746f7274757265))
	p := plan{
		seed: seed, instances: 1 + rnd.IntN(3), partitions: []int{1, 3, 6}[rnd.IntN(3)], events: 300 + rnd.IntN(701),
		spell:  time.Duration(7+rnd.IntN(5)) * time.Second,
		skewed: 0.1 * rnd.Float64(),
		mix: loadgen.Config{
			Seed: seed, Repeats: 0.08 * rnd.Float64(), Conflicts: 0.03 * rnd.Float64(), Bad: 0.04 * rnd.Float64(), Odd: 0.08 * rnd.Float64(),
		},
		rules: drawRules(rnd),
	}
	for range 3 + rnd.IntN(6) {
		p.faults = append(p.faults, drawFault(rnd, p, s))
	}
	byTime := func(a, b fault) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(p.faults, byTime)
	free := map[string]time.Duration{} // two faults of one target at once would hide each other
	for i := range p.faults {
		f := &p.faults[i]
		f.at = max(f.at, free[f.target])
		free[f.target] = f.at + f.lasts + 500*time.Millisecond
	}
	slices.SortStableFunc(p.faults, byTime)
	return p
}

// drawRules lets a few of the provider's answers fail by themselves, in rounds that have luck.
func drawRules(rnd *rand.Rand) []providersim.Rule {
	rules := []providersim.Rule{{Kind: providersim.Decline, Share: 0.03 * rnd.Float64(), First: providersim.EveryRequest}}
	if rnd.IntN(3) == 0 {
		rules = append(rules, providersim.Rule{Kind: providersim.Status400, Share: 0.01 * rnd.Float64(), First: providersim.EveryRequest})
	}
	for _, k := range []providersim.Kind{
		providersim.Status503, providersim.Status500After, providersim.ResetAfter, providersim.HangAfter, providersim.Status429, providersim.Slow, providersim.Truncated,
	} {
		if rnd.IntN(3) == 0 {
			rules = append(rules, providersim.Rule{Kind: k, Share: 0.03 * rnd.Float64()})
		}
	}
	return rules
}

// modes are the provider's outages. 400 is not among them: it is the orders' fault, and every order would be refused.
var modes = []providersim.Kind{
	providersim.Status503, providersim.Status500, providersim.Status429, providersim.Status401, providersim.Status404, providersim.Redirect,
	providersim.ResetBefore, providersim.Hang, providersim.Status500After, providersim.ResetAfter, providersim.HangAfter, providersim.Garbage,
	providersim.Truncated, providersim.Slow,
}

// faultKinds are drawn with these weights.
var faultKinds = []struct {
	kind   string
	weight int
	needs  func(surroundings) bool // nil: nothing
	draw   func(rnd *rand.Rand, p plan, s surroundings, f *fault)
}{
	{"kill", 4, nil, onInstance(500, 3000)},
	{"stop", 2, nil, onInstance(500, 2000)},
	{"freeze", 2, nil, onInstance(300, 2000)},           // shorter than the lease
	{"freeze-long", 2, nil, onInstance(4500, 8000)},     // longer
	{"join", 2, nil, onInstanceOf("guest", 2500, 6000)}, // another instance comes and leaves
	{"broker-kill", 2, nil, onBroker(500, 3000)},
	{"broker-freeze", 2, nil, onBroker(500, 5000)},
	{"terminate", 2, nil, on("postgres", 0, 0)},
	{"read-only", 1, nil, on("postgres", 1000, 4000)},
	{"crash", 2, func(s surroundings) bool { return s.database }, on("postgres", 300, 2000)},
	{"provider", 6, nil, func(rnd *rand.Rand, p plan, s surroundings, f *fault) {
		on("provider", 500, 5000)(rnd, p, s, f)
		f.detail = string(modes[rnd.IntN(len(modes))])
	}},
	{"network", 6, nil, onLink},
}

func drawFault(rnd *rand.Rand, p plan, s surroundings) fault {
	total := 0
	for _, k := range faultKinds {
		total += k.weight
	}
	f := fault{at: between(rnd, 500, int(p.spell.Milliseconds()))}
	for dice := rnd.IntN(total); ; dice = rnd.IntN(total) {
		for _, k := range faultKinds {
			if dice -= k.weight; dice >= 0 {
				continue
			}
			if k.needs == nil || k.needs(s) {
				f.kind = k.kind
				k.draw(rnd, p, s, &f)
				return f
			}
			break
		}
	}
}

// between is a duration of so many milliseconds, both ends included.
func between(rnd *rand.Rand, low, high int) time.Duration {
	return time.Duration(low+rnd.IntN(high-low+1)) * time.Millisecond
}

func on(target string, low, high int) func(*rand.Rand, plan, surroundings, *fault) {
	return func(rnd *rand.Rand, _ plan, _ surroundings, f *fault) {
		f.target, f.lasts = target, between(rnd, low, high)
	}
}

func onInstance(low, high int) func(*rand.Rand, plan, surroundings, *fault) {
	return onInstanceOf("billing", low, high)
}

func onInstanceOf(name string, low, high int) func(*rand.Rand, plan, surroundings, *fault) {
	return func(rnd *rand.Rand, p plan, _ surroundings, f *fault) {
		if name == "billing" {
			f.number = rnd.IntN(p.instances)
		}
		f.target, f.lasts = fmt.Sprintf("%s-%d", name, f.number+1), between(rnd, low, high)
	}
}

func onBroker(low, high int) func(*rand.Rand, plan, surroundings, *fault) {
	return func(rnd *rand.Rand, _ plan, s surroundings, f *fault) {
		f.number = rnd.IntN(s.brokers)
		f.target, f.lasts = fmt.Sprintf("broker-%d", f.number+1), between(rnd, low, high)
	}
}

// onLink breaks the network between one instance and one of its three servers.
func onLink(rnd *rand.Rand, p plan, _ surroundings, f *fault) {
	f.number = rnd.IntN(p.instances)
	to := []string{"broker", "postgres", "provider"}[rnd.IntN(3)]
	f.target, f.lasts = fmt.Sprintf("billing-%d/%s", f.number+1, to), between(rnd, 500, 6000)
	kinds := netcut.Kinds()
	f.net = netcut.Fault{Kind: kinds[rnd.IntN(len(kinds))], Delay: between(rnd, 20, 400), Bytes: rnd.IntN(20_000)}
	f.detail = to + ":" + string(f.net.Kind)
}

// String is the whole plan, for the one who wants to know what a seed did.
func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d instances, %d partitions, %d events in %s (repeats %.3f, conflicts %.3f, bad %.3f, odd %.3f, skewed %.3f)\n",
		p.seed, p.instances, p.partitions, p.events, p.spell, p.mix.Repeats, p.mix.Conflicts, p.mix.Bad, p.mix.Odd, p.skewed)
	for _, r := range p.rules {
		fmt.Fprintf(&b, "provider: %s of %.4f", r.Kind, r.Share)
		if r.First != 0 {
			b.WriteString(" of orders")
		}
		b.WriteString("\n")
	}
	for _, f := range p.faults {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}
