package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/billing/load/bench/ledger"
)

// Every tenth order fails once, so that a hundred a second wait and never so many in a row that the service takes it for
// an outage.
const (
	latenessRate = 1000
	failEvery    = 10
	firstDelay   = 5 * time.Second // BILLING_RETRY_DELAYS
)

// measureLateness is when the second attempt comes, beside when it is due: 5 s after the first answer. The provider reads
// both times from one clock; a negative figure would be early.
func measureLateness(ctx context.Context, l *lab, o options, r *report) (err error) {
	if !slices.Contains(o.programs, "service") {
		return nil
	}
	seconds := 20
	if o.quick {
		seconds = 6
	}
	t, err := newTrial(ctx, l, "service", 256, "-fail-every", fmt.Sprint(failEvery))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	if err := t.startWarm(ctx); err != nil {
		return err
	}
	n := seconds * latenessRate
	if err := t.orders.AtRate(ctx, l, latenessRate, n, nil); err != nil {
		return err
	}
	if err := t.watch(ctx, warmUp+n, looks, firstDelay+20*time.Second, func(sample) {}); err != nil {
		return err
	}
	orders, err := t.ledger.Orders(ctx)
	if err != nil {
		return err
	}
	late, waiting := latenessOf(orders)
	if waiting > 0 || len(late) < n/failEvery {
		return fmt.Errorf("%d second attempts came, %d did not, see %s", len(late), waiting, t.child.Log)
	}
	r.Lateness = append(r.Lateness, spreadOf("service", late))
	say("%d second attempts late by at least %s, p99 %s", len(late), millis(r.Lateness[0].Least), millis(r.Lateness[0].P99))
	return nil
}

func latenessOf(orders []ledger.Order) (late []time.Duration, waiting int) {
	for _, o := range orders {
		switch {
		case o.FirstAnswered.IsZero():
		case o.SecondAsked.IsZero():
			waiting++
		default:
			late = append(late, o.SecondAsked.Sub(o.FirstAnswered)-firstDelay)
		}
	}
	return late, waiting
}
