package verdict

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/load/rig"
)

// place is where a record of the main topic stands: its identity.
type place struct {
	partition int32
	offset    int64
}

func (p place) String() string { return fmt.Sprintf("record %d/%d", p.partition, p.offset) }

// judge is the work on one case.
type judge struct {
	Case
	v Verdict

	main     map[place]Record
	dead     map[place][]Record
	tiers    map[place][]Record
	retries  map[string]Record            // of the retry topics, by their own place
	results  map[string]map[string]result // by order, by event id
	requests map[string][]rig.Request
}

// Of judges the case.
func Of(c Case) *Verdict {
	j := &judge{
		Case: c, main: map[place]Record{}, dead: map[place][]Record{}, tiers: map[place][]Record{}, retries: map[string]Record{},
		results: map[string]map[string]result{}, requests: map[string][]rig.Request{},
	}
	j.v.Records, j.v.Requests = len(c.Main), len(c.Requests)
	for _, r := range c.Main {
		j.main[place{r.Partition, r.Offset}] = r
	}
	for _, r := range c.Requests {
		j.requests[r.Order] = append(j.requests[r.Order], r)
	}
	for _, tier := range append([][]Record{c.Other}, c.Tiers...) {
		for _, r := range tier {
			j.retries[placeIn(r.Topic, fmt.Sprint(r.Partition), fmt.Sprint(r.Offset))] = r
		}
	}
	for rank, tier := range c.Tiers {
		for _, r := range tier {
			j.retried(r, rank+1)
		}
	}
	for _, r := range c.Other {
		j.retried(r, len(c.Tiers))
	}
	for _, r := range c.Dead {
		j.died(r)
	}
	j.readResults()
	orders := j.group()
	for _, id := range slices.Sorted(maps.Keys(orders)) {
		j.order(id, orders[id])
	}
	j.strangers(orders)
	j.commits()
	j.early(orders)
	j.inOutages()
	j.floods()
	j.books()
	return &j.v
}

func (j *judge) wrong(order, format string, args ...any) {
	j.v.Problems = append(j.v.Problems, Problem{order, fmt.Sprintf(format, args...)})
}

// retried checks a record of a retry topic: it stands for a record of the main topic, byte for byte, and its count is in
// bounds.
func (j *judge) retried(r Record, rank int) {
	at, ok := j.origin(r)
	if !ok {
		return
	}
	j.tiers[at] = append(j.tiers[at], r)
	if j.Ladders {
		rank = len(j.Tiers) // an order of another ladder goes to the first topic that fits its due time, whatever its count
	}
	if n := j.attempts(r); n < 0 || n > rank {
		j.wrong(orderOf(r), "%s in %s has x-retry-attempt %q", at, r.Topic, r.header("x-retry-attempt"))
	}
}

func (j *judge) died(r Record) {
	at, ok := j.origin(r)
	if !ok {
		return
	}
	if len(j.dead[at]) > 0 {
		j.v.Repeated++
	}
	j.dead[at] = append(j.dead[at], r)
	if n := j.attempts(r); n < 1 || n > len(j.Tiers)+1 {
		j.wrong(orderOf(r), "the dead letter of %s has x-retry-attempt %q", at, r.header("x-retry-attempt"))
	}
}

func (*judge) attempts(r Record) int {
	n, err := strconv.Atoi(r.header("x-retry-attempt"))
	if err != nil {
		return -1
	}
	return n
}

func placeIn(topic, partition, offset string) string { return topic + " " + partition + "/" + offset }

// origin finds the record of the main topic that this one stands for. After the database was set back a retry record may be
// one that it does not know: what follows stands for that record, and so for what that one stands for.
func (j *judge) origin(r Record) (place, bool) {
	if j.SetBack {
		if before, ok := j.retries[placeIn(r.header("x-original-topic"), r.header("x-original-partition"), r.header("x-original-offset"))]; ok {
			if !same(before.Key, r.Key) || !same(before.Value, r.Value) {
				j.wrong(orderOf(r), "%s %d/%d is not byte for byte the retry record that it stands for", r.Topic, r.Partition, r.Offset)
			}
			return j.origin(before)
		}
	}
	partition, err1 := strconv.ParseInt(r.header("x-original-partition"), 10, 32)
	offset, err2 := strconv.ParseInt(r.header("x-original-offset"), 10, 64)
	at := place{int32(partition), offset}
	original, ok := j.main[at]
	if err1 != nil || err2 != nil || !ok {
		j.wrong(orderOf(r), "%s %d/%d stands for no record of the main topic", r.Topic, r.Partition, r.Offset)
		return at, false
	}
	if !same(original.Key, r.Key) || !same(original.Value, r.Value) {
		j.wrong(orderOf(r), "%s %d/%d is not byte for byte %s", r.Topic, r.Partition, r.Offset, at)
	}
	return at, true
}

// same tells nil from empty.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func orderOf(r Record) string { return string(r.Key) }

// group finds the event of each record. Records that are no orders are judged at once.
func (j *judge) group() map[string][]entry {
	events := map[string]loadgen.Event{}
	for _, e := range j.Events {
		k := contentOf(e.Record.Key, e.Record.Value)
		if first, ok := events[k]; !ok || first.Kind == "repeat" {
			events[k] = e
		}
	}
	orders := map[string][]entry{}
	for _, r := range j.Main {
		at := place{r.Partition, r.Offset}
		e, ok := events[contentOf(r.Key, r.Value)]
		switch {
		case !ok:
			j.wrong(orderOf(r), "%s was never sent", at)
		case e.OrderID == uuid.Nil:
			j.bad(at, e)
		default:
			id := e.OrderID.String()
			orders[id] = append(orders[id], entry{at, r, contentOf(nil, r.Value), e})
		}
	}
	for _, entries := range orders {
		slices.SortFunc(entries, func(a, b entry) int {
			return cmp.Or(cmp.Compare(a.at.partition, b.at.partition), cmp.Compare(a.at.offset, b.at.offset))
		})
	}
	return orders
}

// contentOf is key and value as one text that tells nil from empty.
func contentOf(key, value []byte) string {
	return fmt.Sprintf("%t%t%q%q", key == nil, value == nil, key, value)
}

// bad is a record that is no order: one dead letter with its reason.
func (j *judge) bad(at place, e loadgen.Event) {
	j.v.Bad++
	letters := j.dead[at]
	if len(letters) == 0 {
		j.v.Lost++
		j.wrong("", "%s (%s) is not in the dead letters", at, e.Kind)
	}
	for _, l := range letters {
		if got := l.header("x-error-reason"); got != string(e.Want.Reason) || l.header("x-error-class") != "invalid" {
			j.wrong("", "%s (%s) is dead for %s %q, want %q", at, e.Kind, l.header("x-error-class"), got, e.Want.Reason)
		}
	}
}

// strangers are orders that the provider was asked for and nobody sent.
func (j *judge) strangers(orders map[string][]entry) {
	for id := range j.Accounts {
		if len(orders[id]) == 0 {
			j.wrong(id, "the provider was asked for an order that nobody sent")
		}
	}
	for id := range j.results {
		if len(orders[id]) == 0 {
			j.wrong(id, "a result of an order that nobody sent")
		}
	}
}

func (j *judge) books() {
	b := j.Books
	if b.Difference != 0 || b.Waiting != 0 || b.Taken != int64(len(j.Main)) {
		j.wrong("", "the balance is not even: taken %d of %d records, waiting %d, difference %d", b.Taken, len(j.Main), b.Waiting, b.Difference)
	}
	if b.Outbox != 0 || b.InFlight != 0 || b.Anomalies != 0 {
		j.wrong("", "at rest: %d events in the outbox, %d orders in flight, %d anomalies", b.Outbox, b.InFlight, b.Anomalies)
	}
}
