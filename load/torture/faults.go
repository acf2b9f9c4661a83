package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/netcut"
)

// faultKind is a kind of fault and how one is drawn.
type faultKind struct {
	kind   string
	weight int
	needs  func(surroundings) bool // nil: nothing
	draw   func(rnd *rand.Rand, p plan, s surroundings, f *fault)
}

// faultKinds are drawn with these weights.
var faultKinds = []faultKind{
	{"kill", 4, nil, onInstance(500, 3000)},
	{"stop", 2, nil, onInstance(500, 2000)},
	{"freeze", 2, nil, onInstance(300, 2000)},           // shorter than the lease
	{"freeze-long", 2, nil, onInstance(4500, 8000)},     // longer
	{"join", 2, nil, onInstanceOf("guest", 2500, 6000)}, // another instance comes and leaves
	{"restarts", 3, nil, restarts},                      // all instances, one after the other, while the provider is away
	{"delays", 1, nil, delays},                          // the retry delays are changed, one instance after the other, and back
	{"deploy", 2, func(s surroundings) bool { return s.older }, deploy},
	{"broker-kill", 2, nil, onBroker(500, 3000)},
	{"broker-freeze", 2, nil, onBroker(500, 5000)},
	{"fatal", 2, nil, of(fatalCodes, onProducer)},     // some publishes are answered with what ends a producer
	{"refused", 1, nil, of(refusedCodes, onProducer)}, // the broker works and refuses every publish
	{"flood", 1, nil, flood},                          // many records that are no orders
	{"clock", 2, nil, on("tiers", 0, 0)},              // retry records of an instance whose clock is hours ahead
	{"terminate", 2, nil, on("postgres", 0, 0)},
	{"read-only", 1, nil, on("postgres", 1000, 4000)},
	{"crash", 2, func(s surroundings) bool { return s.database }, on("postgres", 300, 2000)},
	{"sql", 5, nil, of(sqlFaults(), on("postgres", 3000, 9000))}, // every statement that writes to a table fails
	{"deallocate", 1, nil, on("postgres", 1000, 5000)},           // sessions lose their prepared statements
	{"lock", 2, nil, on("rows", 8000, 16000)},
	{"setback", 2, nil, setback}, // the database is restored to an earlier snapshot
	{"provider", 6, nil, of(modes, on("provider", 500, 5000))},
	{"status", 5, nil, func(rnd *rand.Rand, p plan, s surroundings, f *fault) {
		on("provider", 3000, 9000)(rnd, p, s, f)
		f.detail = string(providersim.Status(drawStatus(rnd)))
	}},
	{"busy", 2, nil, of([]providersim.Kind{providersim.Busy}, on("provider", 3000, 9000))},
	{"unsure", 2, nil, of([]providersim.Kind{providersim.Unsure}, on("provider", 3000, 9000))},
	{"sick", 2, nil, of([]providersim.Kind{
		providersim.Sick(401), providersim.Sick(404), providersim.Sick(500), providersim.Sick(403), sickPage,
	}, on("provider", 3000, 9000))},
	{"limit", 2, nil, of([]providersim.Kind{
		providersim.Limit(5), providersim.Limit(20), providersim.Limit(60), providersim.Some(429), providersim.Status429,
	}, on("provider", 4000, 9000))},
	{"page", 1, nil, of([]providersim.Kind{providersim.Page(402), providersim.Page(400), providersim.Page(422)}, on("provider", 2000, 6000))},
	{"refusal", 2, nil, of([]providersim.Kind{ // not 402: a decline is final for the key, so that many would be declined
		providersim.Status400, providersim.Status(413), providersim.Status(415),
	}, on("provider", 1000, 6000))},
	{"network", 6, nil, onLink},
}

// sickPage is one of three nodes whose platform answers in its place, as if everything were declined.
const sickPage providersim.Kind = "sick-402-page"

// modes are the provider's outages that have a name.
var modes = []providersim.Kind{
	providersim.Status503, providersim.Status500, providersim.Status429, providersim.Status401, providersim.Status404, providersim.Redirect,
	providersim.ResetBefore, providersim.Hang, providersim.Status500After, providersim.ResetAfter, providersim.HangAfter, providersim.Garbage,
	providersim.Truncated, providersim.Slow,
}

// finalWithBody are the statuses that say, with the contract's body, that the request is at fault.
var finalWithBody = []int{400, 402, 413, 415, 422}

// drawStatus is any status that is not a success, but those by which the contract lets a provider blame the order.
func drawStatus(rnd *rand.Rand) int {
	for {
		common := []int{408, 409, 423, 425, 403, 405, 410, 418, 451, 501, 502, 504, 505, 511, 304, 307}
		n := 300 + rnd.IntN(300)
		if rnd.IntN(2) == 0 {
			n = common[rnd.IntN(len(common))]
		}
		if !slices.Contains(finalWithBody, n) {
			return n
		}
	}
}

// sqlFaults are a table and the SQLSTATE that each statement which writes to it fails with.
func sqlFaults() (all []string) {
	for _, code := range []string{
		"53000", "53100", "53200", "53300", "53400", "54000", "54001", "54023", "55000", "55006", "55P03", "57000", "57014", "57P01",
		"57P03", "58000", "58030", "58P01", "XX000", "XX001", "XX002", "26000", "42P05", "42P01", "42703", "42501", "40001", "40P01",
		"0A000", "21000", "25006", "08006", "F0000", "HV000", "P0001", "P0002",
	} {
		all = append(all, "charges:"+code, "charges:"+code, "record_fates:"+code, "outbox:"+code)
	}
	return all
}

// Kafka's codes of a publish that fails. The first ones end an idempotent producer.
var (
	fatalCodes   = []string{"OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "UNKNOWN_PRODUCER_ID", "CLUSTER_AUTHORIZATION_FAILED"}
	refusedCodes = []string{"TOPIC_AUTHORIZATION_FAILED", "POLICY_VIOLATION", "INVALID_RECORD", "NOT_ENOUGH_REPLICAS"}
)

func drawFault(rnd *rand.Rand, p plan, s surroundings) fault {
	total := 0
	for _, k := range faultKinds {
		total += k.weightIn(s)
	}
	dice := rnd.IntN(total)
	f := fault{at: between(rnd, 500, int(p.spell.Milliseconds()))}
	for _, k := range faultKinds {
		if dice -= k.weightIn(s); dice < 0 {
			f.kind = k.kind
			k.draw(rnd, p, s, &f)
			break
		}
	}
	return f
}

// kindsNamed reads a list of kinds of faults.
func kindsNamed(list string, s surroundings) (kinds []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		if name == "" {
			continue
		}
		i := slices.IndexFunc(faultKinds, func(k faultKind) bool { return k.kind == name })
		if i < 0 {
			return nil, fmt.Errorf("-faults: there is no kind %q; there are %s", name, kindNames())
		}
		if faultKinds[i].weightIn(s) == 0 {
			return nil, fmt.Errorf("-faults: %s cannot be played here: it needs its own Postgres server, or -older", name)
		}
		kinds = append(kinds, name)
	}
	return kinds, nil
}

func kindNames() string {
	var names []string
	for _, k := range faultKinds {
		names = append(names, k.kind)
	}
	return strings.Join(names, " ")
}

// weightIn is 0 where the kind cannot be or is not wanted.
func (k faultKind) weightIn(s surroundings) int {
	if k.needs != nil && !k.needs(s) || len(s.only) > 0 && !slices.Contains(s.only, k.kind) {
		return 0
	}
	return k.weight
}

// between is a duration of so many milliseconds, both ends included.
func between(rnd *rand.Rand, low, high int) time.Duration {
	return time.Duration(low+rnd.IntN(high-low+1)) * time.Millisecond
}

type draw = func(*rand.Rand, plan, surroundings, *fault)

func on(target string, low, high int) draw {
	return func(rnd *rand.Rand, _ plan, _ surroundings, f *fault) {
		f.target, f.lasts = target, between(rnd, low, high)
	}
}

// of is a draw with one of some details.
func of[D ~string](details []D, d draw) draw {
	return func(rnd *rand.Rand, p plan, s surroundings, f *fault) {
		d(rnd, p, s, f)
		f.detail = string(details[rnd.IntN(len(details))])
	}
}

func onInstance(low, high int) draw { return onInstanceOf("billing", low, high) }

func onInstanceOf(name string, low, high int) draw {
	return func(rnd *rand.Rand, p plan, _ surroundings, f *fault) {
		if name == "billing" {
			f.number = rnd.IntN(p.instances)
		}
		f.target, f.lasts = fmt.Sprintf("%s-%d", name, f.number+1), between(rnd, low, high)
	}
}

func onBroker(low, high int) draw {
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

// onProducer spoils what the brokers answer to one instance's publishes.
func onProducer(rnd *rand.Rand, p plan, _ surroundings, f *fault) {
	f.number = rnd.IntN(p.instances)
	f.target, f.lasts = fmt.Sprintf("billing-%d/broker", f.number+1), between(rnd, 1000, 6000)
}

// everyInstance is the targets of all that run.
func everyInstance(p plan) []string {
	all := []string{"guest-1"}
	for i := range p.instances {
		all = append(all, fmt.Sprintf("billing-%d", i+1))
	}
	return all
}

// restarts begin and end with an outage of the provider; in one of four all is well.
func restarts(rnd *rand.Rand, p plan, _ surroundings, f *fault) {
	f.target, f.also, f.lasts = "provider", everyInstance(p), between(rnd, 3000, 9000)
	outages := []providersim.Kind{providersim.Status503, providersim.Status(408), providersim.Status401, providersim.Hang, providersim.Busy, providersim.OK}
	f.detail = string(outages[rnd.IntN(len(outages))])
}

// delays are changed while the servers work: to drain a topic is a person's business, who waits for them.
func delays(rnd *rand.Rand, p plan, _ surroundings, f *fault) {
	f.target, f.also, f.lasts = "tiers", everyInstance(p), between(rnd, 2000, 5000)
}

func setback(rnd *rand.Rand, p plan, _ surroundings, f *fault) {
	f.target, f.also, f.lasts = "postgres", append(everyInstance(p), "rows"), between(rnd, 1500, 4000)
}

// deploy comes before all other faults: the earlier release is not what is judged.
func deploy(rnd *rand.Rand, p plan, s surroundings, f *fault) {
	f.target, f.also, f.at, f.lasts = "postgres", append(everyInstance(p), "provider", "rows", "tiers", "topic"), 0, between(rnd, 4000, 6000)
	for b := range s.brokers {
		f.also = append(f.also, fmt.Sprintf("broker-%d", b+1))
	}
	for i := range p.instances {
		for _, to := range []string{"broker", "postgres", "provider"} {
			f.also = append(f.also, fmt.Sprintf("billing-%d/%s", i+1, to))
		}
	}
}

// flood of records that are no orders; in every other one all instances are restarted in the middle of it.
func flood(rnd *rand.Rand, p plan, _ surroundings, f *fault) {
	f.target, f.lasts, f.count = "topic", between(rnd, 2000, 5000), 100+rnd.IntN(300)
	if rnd.IntN(2) == 0 {
		f.detail, f.also = "restart", everyInstance(p)
	}
}

// redelivers reports whether a record may be handled again because of the fault, or arrive at the provider late. Up to the
// first such fault a request that came before its record was due has no excuse.
func (f fault) redelivers() bool {
	return !f.ofProvider() && f.kind != "terminate" && f.kind != "read-only"
}

// ofProvider reports whether the provider is at fault, and nothing else.
func (f fault) ofProvider() bool {
	switch f.kind {
	case "provider", "status", "busy", "unsure", "sick", "limit", "page", "refusal":
		return true
	}
	return false
}

// everybodys reports whether each order meets the fault that comes to the instance: then none may die of it.
func (f fault) everybodys() bool {
	switch f.kind {
	case "provider", "status", "busy", "unsure", "page", "restarts", "read-only", "crash", "sql", "deallocate", "setback",
		"broker-kill", "broker-freeze", "network", "fatal", "refused":
		return true
	}
	return f.kind == "limit" && f.detail == string(providersim.Status429)
}
