package verdict

import (
	"encoding/json"
	"slices"

	"example.com/billing/internal/demo/loadgen"
)

// entry is one record of an order. Records of one content are the event and its repetitions; another content is a conflict,
// and the first one that was claimed is the order.
type entry struct {
	at      place
	record  Record
	content string
	event   loadgen.Event
}

// result is what a result event says.
type result struct {
	EventID string `json:"event_id"`
	Type    string `json:"event_type"`
	OrderID string `json:"order_id"`
	Amount  string `json:"amount"`
	Cur     string `json:"currency"`
	Kind    string `json:"kind"`
}

func (j *judge) readResults() {
	for _, r := range j.Results {
		var e result
		if err := json.Unmarshal(r.Value, &e); err != nil || e.EventID == "" || e.OrderID != orderOf(r) {
			j.wrong(orderOf(r), "result %d/%d cannot be read: %s", r.Partition, r.Offset, r.Value)
			continue
		}
		if j.results[e.OrderID] == nil {
			j.results[e.OrderID] = map[string]result{}
		}
		if _, again := j.results[e.OrderID][e.EventID]; again {
			j.v.Repeated++
		}
		j.results[e.OrderID][e.EventID] = e
	}
}

// order judges all records of one order by its account.
func (j *judge) order(id string, entries []entry) {
	j.v.Orders++
	account := j.Accounts[id]
	for _, r := range j.requests[id] {
		if r.Key != j.requests[id][0].Key {
			j.wrong(id, "asked for under two keys")
			break
		}
	}
	switch {
	case account.Charges > 1:
		j.v.Double++
		j.wrong(id, "CHARGED %d TIMES", account.Charges)
	case account.Charges == 1:
		j.charged(id, entries, account)
	default:
		j.notCharged(id, entries)
	}
}

// charged: the records of the charged content are done, any other is a conflict, and one event tells of the success.
func (j *judge) charged(id string, entries []entry, account Account) {
	j.v.Charged++
	chosen := slices.IndexFunc(entries, func(e entry) bool { return amountOf(e) == account.Amount })
	if chosen < 0 {
		j.wrong(id, "charged %s, which no record of it asked for", account.Amount)
		return
	}
	unknown := false
	j.v.Duplicates--
	for _, e := range entries {
		letters := j.dead[e.at]
		if e.content != entries[chosen].content {
			j.conflict(id, e, letters)
			continue
		}
		j.v.Duplicates++
		for _, l := range letters {
			unknown = true
			if !j.exhausted(l) && !j.refusedLater(id, l) && !j.refusalForgotten(l) {
				j.wrong(id, "charged, and %s is dead for %s %s after %s failures", e.at, l.header("x-error-class"), l.header("x-error-reason"), l.header("x-retry-attempt"))
			}
		}
	}
	if unknown {
		j.v.Unknown++
	}
	told := j.told(id)
	succeeded := told["billing.charge.succeeded.v1"]
	if told["billing.charge.failed.v1"] != 0 && !j.SetBack || succeeded > 1 && !j.SetBack || succeeded == 0 && !unknown {
		j.wrong(id, "charged once, and the results tell %v", told)
	}
}

// refusalForgotten reports whether a database that was set back can have forgotten that the order was refused: its record is
// read again, and it is charged.
func (j *judge) refusalForgotten(l Record) bool {
	class := l.header("x-error-class")
	return j.SetBack && (class == "rejected" || class == "declined")
}

func amountOf(e entry) string {
	return e.event.Want.Amount.Decimal() + " " + e.event.Want.Amount.Currency
}

// exhausted reports whether the letter stands for a record that failed four times in passing.
func (j *judge) exhausted(l Record) bool {
	class := l.header("x-error-class")
	return (class == "exhausted" || class == "unknown") && j.attempts(l) == len(j.Tiers)+1
}

// refusedLater reports whether the provider refused the order after it may have charged it: that proves nothing about the
// charge, so the outcome stays unknown, for a person (hazard H5).
func (j *judge) refusedLater(id string, l Record) bool {
	refused, flooded := j.refused(id, "rejected")
	if l.header("x-error-class") != "unknown" || !refused {
		return false
	}
	if flooded {
		j.v.Flooded++
	}
	return true
}

func (j *judge) told(id string) map[string]int {
	told := map[string]int{}
	for _, e := range j.results[id] {
		told[e.Type]++
	}
	return told
}

func (j *judge) conflict(id string, e entry, letters []Record) {
	j.v.Conflicts++
	if len(letters) == 0 {
		j.v.Lost++
		j.wrong(id, "%s conflicts with the charged order and is not in the dead letters", e.at)
	}
	for _, l := range letters {
		// It may have failed four times before the order was ever claimed.
		// A database that forgot the order asks for the conflict first, and the provider remembers.
		reason := l.header("x-error-reason")
		if reason != "order_conflict" && (reason != "key_reused" || !j.SetBack) && !j.exhausted(l) {
			j.wrong(id, "%s conflicts and is dead for %s", e.at, reason)
		}
	}
}

// notCharged: every record is in the dead letters, for a reason that the provider gave or after four failures.
func (j *judge) notCharged(id string, entries []entry) {
	refused, flooded, lost := false, false, false
	for _, e := range entries {
		letters := j.dead[e.at]
		lost = lost || len(letters) == 0
		for n, l := range letters {
			class, reason := l.header("x-error-class"), l.header("x-error-reason")
			byProvider, byFlood := j.refused(id, class)
			switch {
			case byProvider:
				refused, flooded = true, byFlood
			case reason == "order_conflict" && len(entries) > 1:
				if n == 0 {
					j.v.Conflicts++
				}
			case !j.exhausted(l) && !j.refusedLater(id, l):
				j.wrong(id, "not charged, and %s is dead for %s %s after %s failures", e.at, class, reason, l.header("x-retry-attempt"))
			}
		}
	}
	told := j.told(id)
	switch {
	case lost:
		j.v.Lost++
		j.wrong(id, "LOST: not charged and not in the dead letters")
	case refused:
		j.v.Refused++
		if flooded {
			j.v.Flooded++
		}
		if n := told["billing.charge.failed.v1"]; n != 1 && (n < 1 || !j.SetBack) || len(told) != 1 {
			j.wrong(id, "refused, and the results tell %v", told)
		}
	default:
		j.v.GivenUp++
		if len(told) > 0 {
			j.wrong(id, "given up, and the results tell %v", told)
		}
	}
}
