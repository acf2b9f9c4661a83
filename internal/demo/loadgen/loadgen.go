// Package loadgen makes order events whose fate is known in advance, for the demo, the benchmark and the tests.
//
// It promises that one seed always gives the same events in the same order, and that each event comes with the fate that
// billing owes it. It never reads what billing did: whoever compares the two, compares two independent accounts.
package loadgen

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

// Outcome is the fate that billing owes an event.
type Outcome string

// The outcomes. A provider that declines or fails decides otherwise for events that are to be charged.
const (
	Charged   Outcome = "charged"
	Duplicate Outcome = "duplicate"
	Dead      Outcome = "dead"
)

// Want is what must become of an event.
type Want struct {
	Outcome Outcome
	Reason  failure.Reason // of a dead one
	Amount  billing.Money  // of a charged one
}

func (w Want) String() string {
	if w.Outcome == Dead {
		return string(w.Outcome) + ":" + string(w.Reason)
	}
	return string(w.Outcome)
}

// Event is one record for the main topic and its fate.
type Event struct {
	Kind    string    // the row of the tables below it was made from, for messages
	OrderID uuid.UUID // zero when the record names none
	Record  kafkaclient.Record
	Want    Want
}

// Config says what is mixed in. The shares are of all events; what remains are plain good orders.
type Config struct {
	Topic    string
	Seed     uint64
	Currency string // that billing is configured with, for events that name none; EUR when empty

	Repeats   float64 // an event again, byte for byte
	Conflicts float64 // an earlier order again with another amount
	Bad       float64 // one of each kind of bad input in turn
	Odd       float64 // correct ones that are easily got wrong, in turn
}

// remembered is how many of the latest orders a repeat or a conflict is taken from.
const remembered = 256

// Generator makes events. It is not safe for concurrent use.
type Generator struct {
	cfg    Config
	rnd    *rand.Rand
	latest []Event // ring of plain good orders
	made   int     // plain good orders so far
	bad    int
	odd    int
}

// New makes a generator.
func New(cfg Config) (*Generator, error) {
	cfg.Currency = cmp.Or(cfg.Currency, "EUR")
	if cfg.Topic == "" {
		return nil, errors.New("loadgen: Topic is empty, want a name such as orders.confirmed")
	}
	if !billing.KnownCurrency(cfg.Currency) {
		return nil, fmt.Errorf("loadgen: Currency %q is not an ISO 4217 code such as EUR", cfg.Currency)
	}
	sum := 0.0
	for _, share := range []float64{cfg.Repeats, cfg.Conflicts, cfg.Bad, cfg.Odd} {
		if share < 0 {
			return nil, fmt.Errorf("loadgen: a share is %v, want 0 to 1", share)
		}
		sum += share
	}
	if sum > 1 {
		return nil, fmt.Errorf("loadgen: the shares add up to %v, want at most 1", sum)
	}
	return &Generator{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 0x62696c6c696e67))}, nil
}

// Next makes the next event.
func (g *Generator) Next() Event {
	dice := g.rnd.Float64()
	pick := func(share float64) bool {
		dice -= share
		return dice < 0
	}
	switch {
	case pick(g.cfg.Bad):
		return g.badEvent()
	case pick(g.cfg.Odd):
		return g.oddEvent()
	case len(g.latest) > 0 && pick(g.cfg.Repeats):
		return g.repeat()
	case len(g.latest) > 0 && pick(g.cfg.Conflicts):
		return g.conflict()
	}
	return g.good()
}

// uuid is a version 4 UUID out of the seed.
func (g *Generator) uuid() uuid.UUID {
	var u uuid.UUID
	high, low := g.rnd.Uint64(), g.rnd.Uint64()
	for i := range 8 {
		u[i], u[8+i] = byte(high>>(8*i)), byte(low>>(8*i))
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}
