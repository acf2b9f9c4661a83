package verdict

import (
	"maps"
	"slices"
	"time"

	"example.com/billing/load/rig"
)

// Outage is a fault that is everyone's: of the provider, the database, the brokers, or the network to one of them.
type Outage struct {
	Name     string
	From, To time.Time
	Refuses  bool // the answers are those of an order that is at fault itself: only their number tells that it is not
	Page     bool // refusals come as a platform's page, which says nothing of an order
	LookUps  bool // only look-ups meet it: an attempt that asked for money failed for something else
	Partly   bool // some requests meet it and some do not: it may cost an order its attempts, but not condemn it
}

// afterwards is how long after its end a fault may still be met: by a request that waited in a connection, and by the
// publish of what came of it.
const afterwards = 1500 * time.Millisecond

func (o Outage) covers(t time.Time) bool { return !t.Before(o.From) && !t.After(o.To.Add(afterwards)) }

// during is exact: what the provider answered, it answered then.
func (o Outage) during(t time.Time) bool { return !t.Before(o.From) && !t.After(o.To) }

// inOutages finds orders that died of what was not theirs. The first few that meet an outage may have a failure counted
// before it shows that it is everyone's. From then on the line is held, so that no outage costs an order two attempts.
func (j *judge) inOutages() {
	for at, letters := range j.dead {
		for _, l := range letters {
			if l.header("x-error-reason") == "provider_rate_limited" {
				j.wrong(orderOf(l), "%s is dead for a rate limit", at)
			}
			if !j.exhausted(l) {
				continue
			}
			failed := j.failedAt(at, l)
			for _, o := range j.Outages {
				n := 0
				for _, r := range failed {
					t := r.At
					if r.header("x-error-reason") == "refused_after_unknown" && !o.Refuses {
						continue // the provider said no to this order, which only an outage that refuses everyone makes it say
					}
					if o.covers(t) && (!o.LookUps || !j.askedSince(orderOf(l), t.Add(-afterwards), t)) {
						n++
					}
				}
				if n > 1 && !o.Partly {
					j.v.OfOutage++
					j.wrong(orderOf(l), "%s died of an outage (%s): %d of its failures are of it, the last one %s", at, o.Name, n, l.header("x-error-reason"))
				}
			}
		}
	}
}

// askedSince reports whether the order was asked for between two instants.
func (j *judge) askedSince(id string, from, to time.Time) bool {
	return slices.ContainsFunc(j.requests[id], func(r rig.Request) bool { return !r.At.Before(from) && !r.At.After(to) })
}

// failedAt are a record's counted failures: the first record that tells of each.
func (j *judge) failedAt(at place, letter Record) []Record {
	first := map[int]Record{}
	for _, r := range append([]Record{letter}, j.tiers[at]...) {
		n := j.attempts(r)
		if seen, ok := first[n]; n > 0 && (!ok || r.At.Before(seen.At)) {
			first[n] = r
		}
	}
	return slices.Collect(maps.Values(first))
}

// refusals are the statuses by which the contract lets a provider refuse an order, by the class of its dead letter.
var refusals = map[string][]int{"declined": {402}, "rejected": {400, 413, 415}}

// refused reports whether the provider refused the order with such a letter, and whether it did so only because everyone was
// refused.
func (j *judge) refused(id, class string) (refused, flooded bool) {
	flooded = true
	for _, r := range j.requests[id] {
		if !slices.Contains(refusals[class], r.Status) {
			continue
		}
		met := func(o Outage) bool { return o.during(r.At) }
		if slices.ContainsFunc(j.Outages, func(o Outage) bool { return o.Page && !o.Partly && met(o) }) {
			continue // a page is no word of the provider; where only some requests get one, this may be another
		}
		refused = true
		flooded = flooded && slices.ContainsFunc(j.Outages, func(o Outage) bool { return o.Refuses && met(o) })
	}
	return refused, refused && flooded
}

// floods: what refuses everyone is noticed by the number of those it refuses.
func (j *judge) floods() {
	if j.v.Flooded > j.FloodAllowed {
		j.wrong("", "%d orders are refused for good because everyone was refused for a while, at most %d may be before that is noticed", j.v.Flooded, j.FloodAllowed)
	}
}
