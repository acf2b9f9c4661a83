package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"example.com/billing/load/bench/ledger"
)

// limits is how fast the service drains a backlog while the provider refuses some charges with 429.
type limits struct {
	Provider  string  `json:"provider"`
	Orders    int     `json:"orders"`
	PerSecond float64 `json:"charges_per_second"` // of the first nine tenths
	Of        float64 `json:"of"`                 // the rate that is possible: without refusals, or that the provider takes
	Refused   float64 `json:"refused"`            // share of the requests
	Missing   int     `json:"missing"`
	Twice     int     `json:"charged_twice"`
}

const (
	limitsInFlight = 256
	limitsLatency  = 40 * time.Millisecond
)

// measureLimits compares with the first case, which refuses nothing, or with what the provider takes.
func measureLimits(ctx context.Context, l *lab, o options, r *report) error {
	if !slices.Contains(o.programs, "service") {
		return nil
	}
	full := 0.0
	for _, c := range []struct {
		provider string
		share    float64
		takes    float64 // a second
		n        int
	}{
		{"takes everything", 0, 0, 30_000},
		{"refuses 1 in 100", 0.01, 0, 30_000},
		{"refuses 10 in 100", 0.1, 0, 30_000},
		{"takes 1,000/s", 0, 1000, 20_000},
		{"takes 200/s", 0, 200, 4_000},
	} {
		if o.quick {
			c.n /= 10
		}
		m, err := oneLimit(ctx, l, c.n, "-refuse", strconv.FormatFloat(c.share, 'f', -1, 64), "-takes", strconv.FormatFloat(c.takes, 'f', -1, 64))
		if err != nil {
			return fmt.Errorf("%s: %w", c.provider, err)
		}
		m.Provider, m.Of = c.provider, c.takes
		if full == 0 {
			full = m.PerSecond
		}
		if m.Of == 0 {
			m.Of = full
		}
		r.Limits = append(r.Limits, m)
		say("provider %s: %.0f charges/s, %.1f %% of the requests refused", m.Provider, m.PerSecond, 100*m.Refused)
	}
	return nil
}

func oneLimit(ctx context.Context, l *lab, n int, provider ...string) (m limits, err error) {
	m.Orders = n
	t, err := newTrial(ctx, l, "service", limitsInFlight, append(provider, "-latency", limitsLatency.String())...)
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
	var most sample // when nine in ten were charged: the last ones may wait, as they were told
	if err := t.watch(ctx, n, looks, 2*time.Minute, func(s sample) {
		if most.at.IsZero() && s.charges.Charged >= n*9/10 {
			most = s
		}
	}); err != nil {
		return m, err
	}
	if _, err := t.stop(); err != nil {
		return m, err
	}
	after, err := t.ledger.Summary(ctx)
	if err != nil {
		return m, err
	}
	m.Missing, m.Twice = n-after.Charged, after.Twice
	m.Refused = refusedShare(after)
	if !most.at.IsZero() {
		m.PerSecond = float64(most.charges.Charged) / most.at.Sub(after.First).Seconds()
	}
	return m, nil
}

func refusedShare(s ledger.Summary) float64 { return float64(s.Refused) / float64(max(1, s.Requests)) }

func writeLimits(w io.Writer, all []limits) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(w, "\nprovider, %s a charge\torders\tcharges/s\tof what is possible\trefused\tmissing\ttwice\t\n", limitsLatency)
	for _, m := range all {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%s\t%.1f %%\t%d\t%d\t\n", m.Provider, m.Orders, m.PerSecond, ratio(m.PerSecond, m.Of, "%.0f %%", 100), 100*m.Refused, m.Missing, m.Twice)
	}
}
