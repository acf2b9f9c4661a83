// Package verdict judges a round of the torture: was an order lost, charged twice, or told wrongly?
//
// It judges by what the provider's ledger and the broker's topics and offsets say, and takes the service's word only where
// the service itself is in question: its balance, its outbox. It is pure: the same evidence gives the same verdict, so
// that its rules can be tested by evidence that is wrong on purpose.
package verdict

import (
	"time"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/load/rig"
)

// Case is the evidence of one round, gathered at rest.
type Case struct {
	Events    []loadgen.Event // that were sent, some of them perhaps in vain
	Main      []Record        // of the main topic: what counts is what the broker has
	Tiers     [][]Record      // of the retry topics, shortest delay first
	Ladders   bool            // the retry delays were changed meanwhile, and topics were drained
	Other     []Record        // of a retry topic of the other delays
	Dead      []Record
	Results   []Record
	Accounts  map[string]Account // by order
	Requests  []rig.Request      // of charges, as they came
	Committed []Commit           // sampled while the round ran
	// Redelivery is when the first fault began after which a record may be handled again; before it a request that comes
	// ahead of its record's due time has no excuse.
	Redelivery time.Time
	Books      Books
	Outages    []Outage
	// FloodAllowed is how many orders may be refused for good before it shows that everyone is refused.
	FloodAllowed int
	// SetBack: the database lost what it had, so that an order's result may be told again.
	SetBack bool
}

// Record is one record of a topic.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	At        time.Time
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is one header of a record.
type Header struct{ Key, Value string }

// header is the value of a header, "" when it is missing or repeated.
func (r Record) header(key string) string {
	value, n := "", 0
	for _, h := range r.Headers {
		if h.Key == key {
			value = h.Value
			n++
		}
	}
	if n != 1 {
		return ""
	}
	return value
}

// Account is what the provider's ledger says of an order.
type Account struct {
	Charges int
	First   time.Time
	Amount  string // of the first charge, "149.90 EUR"
}

// Commit is a group's committed offsets on one topic at an instant.
type Commit struct {
	At    time.Time
	Topic string
	Next  map[int32]int64
}

// Books are what the service's own database says.
type Books struct {
	Difference int64 // of the balance
	Taken      int64
	Waiting    int64
	Outbox     int64
	InFlight   int64
	Anomalies  int64
}

// Verdict is the judgement.
type Verdict struct {
	Records    int // of the main topic
	Orders     int // distinct ones that were to be charged
	Charged    int
	Refused    int // by the provider: declined or rejected
	GivenUp    int // after four counted failures, with no charge
	Unknown    int // after four counted failures, charged, in the dead letters with an unknown outcome
	OfOutage   int // died of what was everyone's
	Flooded    int // refused because everyone was
	Bad        int // records that were never orders
	Duplicates int // records of an order that another record was charged for
	Conflicts  int
	Repeated   int // dead letters and events that were published more than once
	Requests   int
	Lost       int
	Double     int
	Problems   []Problem
}

// Problem is one thing that must not be.
type Problem struct {
	Order string // empty: not of an order
	Text  string
}

// Passed reports whether nothing is wrong.
func (v *Verdict) Passed() bool { return len(v.Problems) == 0 }
