package verdict

import (
	"slices"
	"strconv"
	"time"
)

// clockSlack is for two clocks of one machine that are read one after the other, and for headers in milliseconds.
const clockSlack = 100 * time.Millisecond

// commits checks the samples: an offset that was committed stands above no record without a fate at that time. A fate is a
// charge at the provider, or a later record that stands for it.
func (j *judge) commits() {
	fates := map[place][]time.Time{} // of the records that followed
	for at, records := range j.tiers {
		for _, r := range records {
			fates[at] = append(fates[at], r.At)
		}
	}
	for at, letters := range j.dead {
		for _, l := range letters {
			fates[at] = append(fates[at], l.At)
		}
	}
	ids := map[string]string{}
	for _, e := range j.Events {
		ids[contentOf(e.Record.Key, e.Record.Value)] = e.OrderID.String()
	}
	check := func(r Record, at place) {
		c := j.firstCommitAbove(r)
		if c.At.IsZero() {
			return
		}
		latest := c.At.Add(clockSlack)
		account := j.Accounts[ids[contentOf(r.Key, r.Value)]]
		if account.Charges > 0 && account.First.Before(latest) {
			return
		}
		// The records of a tier and their successors are told apart by their time.
		followed := func(t time.Time) bool { return t.Before(latest) && (r.Topic == j.mainTopic() || t.After(r.At)) }
		if !slices.ContainsFunc(fates[at], followed) {
			j.wrong(orderOf(r), "%s %d/%d was committed at %s without a fate", r.Topic, r.Partition, r.Offset, c.At.Format("15:04:05.000"))
		}
	}
	for _, r := range j.Main {
		check(r, place{r.Partition, r.Offset})
	}
	for at, records := range j.tiers {
		for _, r := range records {
			check(r, at)
		}
	}
}

func (j *judge) mainTopic() string {
	if len(j.Main) == 0 {
		return ""
	}
	return j.Main[0].Topic
}

// firstCommitAbove is the first sample that says the record is done.
func (j *judge) firstCommitAbove(r Record) Commit {
	for _, c := range j.Committed {
		if c.Topic == r.Topic && c.Next[r.Partition] > r.Offset {
			return c
		}
	}
	return Commit{}
}

// early finds requests that were made after a record was put into a retry topic and before it was due. An order with several
// records proves nothing: another one may be handled meanwhile.
//
// When a request came is no proof alone: it may have waited in a connection while its sender gave up, wrote the retry record
// and went on (seed 1072). So requests are counted. Each attempt makes one at most, and the records of the retry topics
// tell how many attempts had ended: one request more than those is one of an attempt that began too early.
func (j *judge) early(orders map[string][]entry) {
	for id, entries := range orders {
		if len(entries) != 1 {
			continue
		}
		for _, r := range j.tiers[entries[0].at] {
			ms, err := strconv.ParseInt(r.header("x-not-before"), 10, 64)
			if err != nil {
				j.wrong(id, "%s %d/%d has no due time", r.Topic, r.Partition, r.Offset)
				continue
			}
			if n, last := j.askedBefore(id, time.UnixMilli(ms)); n > j.endedBy(entries[0].at, r.At) && last.After(r.At.Add(time.Millisecond)) {
				j.wrong(id, "asked for %s before it was due", time.UnixMilli(ms).Sub(last))
			}
		}
	}
}

// askedBefore counts an order's requests before it was due, and before the first fault after which records are handled again.
func (j *judge) askedBefore(id string, due time.Time) (n int, last time.Time) {
	for _, r := range j.requests[id] {
		if r.At.Before(due) && r.At.Before(j.Redelivery) {
			n, last = n+1, r.At
		}
	}
	return n, last
}

// endedBy counts the attempts of a record that had ended: a retry record was published after each.
func (j *judge) endedBy(at place, t time.Time) (n int) {
	for _, r := range j.tiers[at] {
		if !r.At.After(t) {
			n++
		}
	}
	return n
}
