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

// early finds requests that came after a record was put into a retry topic and before it was due. An order with several
// records proves nothing: another one may be handled meanwhile.
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
			due := time.UnixMilli(ms)
			for _, asked := range j.requests[id] {
				if asked.At.After(r.At.Add(time.Millisecond)) && asked.At.Before(due) && asked.At.Before(j.Redelivery) {
					j.wrong(id, "asked for %s before it was due", due.Sub(asked.At))
				}
			}
		}
	}
}
