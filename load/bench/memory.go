package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.com/billing/load/rig"
)

// memory is what the service holds while a backlog waits that does not fit into it.
type memory struct {
	InFlight  int     `json:"in_flight"`
	Backlog   int     `json:"backlog"`
	Charged   int     `json:"charged"`
	PeakBytes int     `json:"peak_rss_bytes"`
	Growth    float64 `json:"growth"` // mean of the last third of the time over that of the second
}

func measureMemory(ctx context.Context, l *lab, o options, r *report) error {
	if !slices.Contains(o.programs, "service") {
		return nil
	}
	n := 1_000_000
	if o.quick {
		n /= 10
	}
	for _, inFlight := range o.inFlight {
		m, err := oneMemory(ctx, l, inFlight, n)
		if err != nil {
			return err
		}
		r.Memory = append(r.Memory, m)
		say("service with %d in flight and a backlog of %d: peak %s", inFlight, n, rig.Megabytes(m.PeakBytes))
	}
	return nil
}

func oneMemory(ctx context.Context, l *lab, inFlight, n int) (m memory, err error) {
	m = memory{InFlight: inFlight, Backlog: n}
	t, err := newTrial(ctx, l, "service", inFlight)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	if err := t.backlog(ctx, n); err != nil {
		return m, err
	}
	if err := t.start(); err != nil {
		return m, err
	}
	var seen []sample
	if err := t.watch(ctx, n, 500*time.Millisecond, time.Minute, func(s sample) { seen = append(seen, s) }); err != nil {
		return m, err
	}
	last := seen[len(seen)-1]
	m.Charged, m.PeakBytes = last.charges.Charged, last.usage.Peak
	m.Growth = meanRSS(seen[len(seen)*2/3:]) / meanRSS(seen[len(seen)/3:len(seen)*2/3])
	if slices.ContainsFunc(seen, func(s sample) bool { return s.charges.Twice > 0 }) {
		err = errors.New("an order was charged twice")
	}
	return m, err
}

func meanRSS(seen []sample) float64 {
	sum := 0
	for _, s := range seen {
		sum += s.usage.RSS
	}
	return float64(sum) / float64(len(seen))
}
