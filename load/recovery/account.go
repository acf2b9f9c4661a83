package main

import (
	"context"
	"time"

	"example.com/billing/load/rig"
)

// account is what became of the orders, by the topics and the provider's ledger.
type account struct {
	orders  map[string]order // by id
	missing int              // not charged
	twice   int
	counted int // failures that cost an attempt
	dead    int
	peak    int // bytes, the most that an instance which runs has taken
}

// order is one of the main topic.
type order struct {
	partition int32
	at        time.Time // produced
	charged   time.Time // zero: not
	requests  int       // of charges
}

// rest ends the flow, waits until every order is charged, and looks what became of them.
func (s *scene) rest(ctx context.Context) (account, error) {
	if err := s.endFlow(); err != nil {
		return account{}, err
	}
	if err := s.awaitAll(ctx, restWithin); err != nil {
		return account{}, err
	}
	return s.account(ctx)
}

func (s *scene) account(ctx context.Context) (a account, err error) {
	records, err := rig.Records(ctx, s.Brokers, s.ladder.Main(), nil)
	if err != nil {
		return a, err
	}
	a.orders = make(map[string]order, len(records))
	for _, r := range records {
		a.orders[string(r.Key)] = order{partition: r.Partition, at: r.Timestamp}
	}
	for _, e := range s.provider.Sim.Ledger() {
		o := a.orders[e.Reference]
		o.charged = e.FirstCharged
		a.orders[e.Reference] = o
		if e.Charges > 1 {
			a.twice++
		}
	}
	for _, r := range s.provider.Requests() {
		o := a.orders[r.Order]
		o.requests++
		a.orders[r.Order] = o
	}
	for _, o := range a.orders {
		if o.charged.IsZero() {
			a.missing++
		}
	}
	if a.dead, err = s.count(ctx, s.ladder.DeadLetters()); err != nil {
		return a, err
	}
	all, err := s.counted(ctx)
	a.counted = all - a.dead
	for _, m := range s.crew {
		if usage, err := rig.UsageOf(m.PID()); err == nil { // else it was killed
			a.peak = max(a.peak, usage.Peak)
		}
	}
	return a, err
}

// figures are those that are asked of every scenario.
func (a account) figures() []figure {
	return []figure{
		atMost("dead letters", a.dead, 0), atMost("missing", a.missing, 0), atMost("charged twice", a.twice, 0), memory(a.peak),
	}
}

// firstCharge after an instant, and the last one.
func (a account) chargesSince(at time.Time) (first, last time.Time) {
	for _, o := range a.orders {
		if o.charged.Before(at) {
			continue
		}
		if first.IsZero() || o.charged.Before(first) {
			first = o.charged
		}
		if o.charged.After(last) {
			last = o.charged
		}
	}
	return first, last
}
