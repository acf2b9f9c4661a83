package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/billing/internal/demo/loadgen"
)

const (
	latencyRate = 200 // orders a second
	warmUp      = 50  // orders before the first one that counts
)

// measureLatency is the time from just before an order is published to its charge, with a provider that needs none.
func measureLatency(ctx context.Context, l *lab, o options, r *report) error {
	seconds := 15
	if o.quick {
		seconds = 5
	}
	for _, program := range o.programs {
		s, err := oneLatency(ctx, l, program, seconds*latencyRate)
		if err != nil {
			return err
		}
		r.Latency = append(r.Latency, s)
		say("%s from order to charge: p50 %s, p99 %s", program, millis(s.P50), millis(s.P99))
	}
	return nil
}

func oneLatency(ctx context.Context, l *lab, program string, n int) (s spread, err error) {
	t, err := newTrial(ctx, l, program, 256)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	if err := t.startWarm(ctx); err != nil {
		return s, err
	}
	sent := map[string]time.Time{}
	if err := t.orders.AtRate(ctx, l, latencyRate, n, func(e loadgen.Event, at time.Time, err error) {
		if err == nil {
			sent[e.OrderID.String()] = at
		}
	}); err != nil {
		return s, err
	}
	if err := t.watch(ctx, warmUp+n, looks, 20*time.Second, func(sample) {}); err != nil {
		return s, err
	}
	orders, err := t.ledger.Orders(ctx)
	if err != nil {
		return s, err
	}
	var took []time.Duration
	for _, o := range orders {
		if at, ok := sent[o.Reference]; ok && o.Charges > 0 {
			took = append(took, o.ChargedAt.Sub(at))
		}
	}
	if len(took) < n {
		return s, fmt.Errorf("%s charged %d of %d orders in time", program, len(took), n)
	}
	return spreadOf(program, took), nil
}

// startWarm starts the program and returns when it charges.
func (t *trial) startWarm(ctx context.Context) error {
	if err := t.start(); err != nil {
		return err
	}
	if err := t.backlog(ctx, warmUp); err != nil {
		return err
	}
	charged := 0
	if err := t.watch(ctx, warmUp, looks, time.Minute, func(s sample) { charged = s.charges.Charged }); err != nil {
		return err
	}
	if charged < warmUp {
		return fmt.Errorf("%s charged %d of the first %d orders in a minute, see %s", t.program, charged, warmUp, t.child.Log)
	}
	return nil
}
