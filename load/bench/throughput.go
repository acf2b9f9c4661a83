package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// throughput is how fast a program takes a backlog.
type throughput struct {
	Program     string        `json:"program"`
	Latency     time.Duration `json:"provider_latency_ns"`
	InFlight    int           `json:"in_flight"`
	Orders      int           `json:"orders"`
	PerSecond   float64       `json:"charges_per_second"`
	CPU         time.Duration `json:"cpu_per_charge_ns"`
	PeakBytes   int           `json:"peak_rss_bytes"`
	FirstCharge time.Duration `json:"first_charge_ns"`
	Stop        time.Duration `json:"stop_ns"`
	Missing     int           `json:"missing"`
	Twice       int           `json:"charged_twice"`
}

// looks is how often a program is looked at. The memory's peak is the kernel's own, so nothing is missed in between.
const looks = 50 * time.Millisecond

func measureThroughput(ctx context.Context, l *lab, o options, r *report) error {
	for _, latency := range o.latencies {
		for i, wanted := range o.inFlight {
			for _, program := range o.programs {
				inFlight := wanted
				if program == "loop" {
					if inFlight = 1; i > 0 {
						continue // one at a time, whatever is asked for: measured already
					}
				}
				t, err := oneThroughput(ctx, l, program, latency, inFlight, o.backlog(program, latency))
				if err != nil {
					return err
				}
				r.Throughput = append(r.Throughput, t)
				say("%s, provider %s, %d in flight: %.0f charges/s", program, latency, t.InFlight, t.PerSecond)
			}
		}
	}
	return nil
}

// backlog is how many orders a program gets. The loop gets those of about ten seconds: its rate does not depend on them.
func (o options) backlog(program string, latency time.Duration) int {
	n := 20_000
	if latency == 0 {
		n = 40_000
	}
	if o.n > 0 {
		n = o.n
	}
	if program == "loop" {
		n = min(n, int(10*time.Second/(latency+2*time.Millisecond)))
	}
	if o.quick && o.n == 0 {
		n /= 10
	}
	return n
}

func oneThroughput(ctx context.Context, l *lab, program string, latency time.Duration, inFlight, n int) (m throughput, err error) {
	m = throughput{Program: program, Latency: latency, InFlight: inFlight, Orders: n}
	t, err := newTrial(ctx, l, program, inFlight, "-latency", latency.String())
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
	if err := t.watch(ctx, n, looks, 2*time.Minute, func(s sample) { seen = append(seen, s) }); err != nil {
		return m, err
	}
	if m.Stop, err = t.stop(); err != nil {
		return m, err
	}
	after, err := t.ledger.Summary(ctx) // again: what happened during the stop counts
	if err != nil {
		return m, err
	}
	first := slices.IndexFunc(seen, func(s sample) bool { return s.charges.Charged > 0 })
	if first < 0 {
		return m, fmt.Errorf("%s charged nothing, see %s", program, t.child.Log)
	}
	last := seen[len(seen)-1]
	m.CPU = (last.usage.CPU - seen[first].usage.CPU) / time.Duration(max(1, last.charges.Charged-seen[first].charges.Charged))
	m.PerSecond = float64(after.Charged) / after.Last.Sub(after.First).Seconds()
	m.PeakBytes = last.usage.Peak
	m.FirstCharge = after.First.Sub(t.child.Started)
	m.Missing, m.Twice = n-after.Charged, after.Twice
	return m, nil
}
