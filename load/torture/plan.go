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
	skewed     float64       // share of events whose timestamp is wrong
	ahead      time.Duration // by as much, or days late
	rules      []providersim.Rule
	faults     []fault // by the time they begin
}

// surroundings are what the faults of a round can be drawn from.
type surroundings struct {
	brokers  int
	database bool     // its server may be killed
	ahead    bool     // the broker takes a timestamp that is hours ahead
	older    bool     // there is a binary of an earlier release
	only     []string // kinds of faults; empty: all
}

// fault is one thing that goes wrong for a while.
type fault struct {
	kind   string   // a key of faultKinds
	detail string   // of a provider's mode or a network fault
	target string   // "billing-1", "broker-1", "postgres", "provider", "billing-1/postgres"
	also   []string // other targets that it needs for itself
	number int      // of the target, from 0
	count  int      // records of a flood
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

// targets are all that the fault needs for itself.
func (f fault) targets() []string { return append([]string{f.target}, f.also...) }

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
	p.settle(s)
	return p
}

// settle brings the faults into an order in which none hides another one of its target, and lets orders come for as long as
// there are faults: an outage that nobody meets shows nothing.
func (p *plan) settle(s surroundings) {
	byTime := func(a, b fault) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(p.faults, byTime)
	free := map[string]time.Duration{}
	for i := range p.faults {
		f := &p.faults[i]
		for _, t := range f.targets() {
			f.at = max(f.at, free[t])
		}
		for _, t := range f.targets() {
			free[t] = f.at + f.lasts + 500*time.Millisecond
		}
		p.spell = max(p.spell, min(f.at+f.lasts+time.Second, maxSpell))
	}
	slices.SortStableFunc(p.faults, byTime)
	p.events = max(p.events, int(p.spell.Seconds()*leastRate))
	if p.has("unsure") { // whose look-ups only old records ask for
		p.skewed = max(p.skewed, 0.4)
	}
	p.ahead = 30 * time.Minute // brokers refuse what is more than an hour ahead
	if s.ahead {
		p.ahead = 12 * time.Hour
	}
}

const (
	maxSpell  = 25 * time.Second
	leastRate = 25 // orders a second
)

func (p plan) has(kind string) bool {
	return slices.ContainsFunc(p.faults, func(f fault) bool { return f.kind == kind })
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
