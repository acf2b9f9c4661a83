package reconcile

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Kind says how both sides differ.
type Kind string

// The differences. Each needs a person.
const (
	ChargedTwice Kind = "charged_twice" // the provider has more than one charge for the order
	NotRecorded  Kind = "not_recorded"  // charged there, and not here
	MissingThere Kind = "missing_there" // charged here, and not there
	OtherAmount  Kind = "other_amount"  // amount or currency differ
	OtherCharge  Kind = "other_charge"  // the one charge there is not the one here
	InReview     Kind = "in_review"     // an unknown outcome that contradicts itself
	Unreadable   Kind = "unreadable"    // an entry of the provider's list that no order can be told of
	maxListed         = 1000            // differences that are listed; all are counted
)

// Difference is one of them, in words for people.
type Difference struct {
	Kind     Kind      `json:"kind"`
	OrderID  uuid.UUID `json:"order_id,omitzero"`
	ChargeID string    `json:"charge_id,omitempty"`
	There    string    `json:"there,omitempty"`
	Here     string    `json:"here,omitempty"`
}

// Findings are differences: all are counted, the first thousand listed.
type Findings struct {
	Total  int          `json:"total"`
	Listed []Difference `json:"listed"`
}

// add leaves out what was found before: a comparison that is resumed looks at some charges again.
func (f *Findings) add(d Difference) {
	same := func(o Difference) bool {
		return o.Kind == d.Kind && o.OrderID == d.OrderID && o.ChargeID == d.ChargeID && (d.ChargeID != "" || o.There == d.There)
	}
	if slices.ContainsFunc(f.Listed, same) {
		return
	}
	f.Total++
	if len(f.Listed) < maxListed {
		f.Listed = append(f.Listed, d)
	}
}

// UnknownReport tells what became of the orders whose outcome was unknown.
type UnknownReport struct {
	Looked     int      `json:"looked"`      // orders on the list
	Charged    int      `json:"charged"`     // found, and recorded
	NotCharged int      `json:"not_charged"` // proven absent: may be replayed
	Left       int      `json:"left"`        // nothing is proven yet
	Busy       int      `json:"busy"`        // somebody works on it, or it is known by now
	Letters    int      `json:"letters"`     // dead letters that were resolved by the charge
	Findings   Findings `json:"differences"`
}

// RangeReport tells how the charges of both sides compare.
type RangeReport struct {
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	Until      time.Time `json:"until"`      // how far the comparison has come
	There      int       `json:"there"`      // charges of the provider
	Here       int       `json:"here"`       // orders that were charged here
	Resolved   int       `json:"resolved"`   // of unknown outcome, found on the way and recorded
	Busy       int       `json:"busy"`       // somebody works on the order: left to the next run
	Unproven   int       `json:"unproven"`   // charged here, not found there, and the provider's look-up was not consistent
	LookedUp   int       `json:"looked_up"`  // orders that had to be asked for by their reference
	TakenOver  int       `json:"taken_over"` // orders with more than one claim
	Sampled    int       `json:"sampled"`    // of these, the ones that were looked up in full
	Findings   Findings  `json:"differences"`
	thereUntil time.Time // the provider's charges up to this one are compared; ours are before Until
}

// Report is what a run found. A part that was not asked for is nil.
type Report struct {
	Unknown *UnknownReport `json:"unknown_outcomes,omitempty"`
	Range   *RangeReport   `json:"range,omitempty"`
}

// Differences are those of both parts.
func (r Report) Differences() Findings {
	var all Findings
	if r.Unknown != nil {
		all = r.Unknown.Findings
	}
	if r.Range != nil {
		all.Total += r.Range.Findings.Total
		all.Listed = slices.Concat(all.Listed, r.Range.Findings.Listed)
	}
	return all
}
