package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/telemetry"
)

// A reading costs one part in a hundred of the time at most, and one that fails is seen by the figure's age.
func TestConservation(t *testing.T) {
	now := time.Now()
	var took time.Duration
	var balances map[int32]pgstore.Balance
	var failed error
	read := func(context.Context) (map[int32]pgstore.Balance, error) {
		now = now.Add(took)
		return balances, failed
	}
	c := newConservation("orders", read, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	m := telemetry.NewMetrics("dev", "unknown")
	c.register(m)
	const difference, age = "billing_conservation_difference", "billing_conservation_age_seconds"
	shown := func(want map[string]float64) {
		t.Helper()
		families, err := m.Registry.Gather()
		require.NoError(t, err)
		got := map[string]float64{}
		for _, f := range families {
			if f.GetName() == difference || f.GetName() == age {
				got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		require.Equal(t, want, got)
	}

	failed, took = errors.New("too slow"), 5*time.Second
	require.Equal(t, 500*time.Second, c.refresh(t.Context()))
	shown(map[string]float64{age: 5}) // nothing is known: no figure, but an age
	failed, took = nil, 100*time.Millisecond
	require.Equal(t, time.Minute, c.refresh(t.Context()))
	now = now.Add(900 * time.Millisecond)
	shown(map[string]float64{age: 1, difference: 0})
	balances, took = map[int32]pgstore.Balance{0: {Difference: 2}, 1: {Difference: -2}}, 3*time.Second
	require.Equal(t, 5*time.Minute, c.refresh(t.Context()))
	shown(map[string]float64{age: 3, difference: 4})
	failed, balances = errors.New("connection refused"), nil
	c.refresh(t.Context())
	shown(map[string]float64{age: 6, difference: 4})
}

func TestConservationEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read := func(context.Context) (map[int32]pgstore.Balance, error) {
		cancel()
		return nil, nil
	}
	require.NoError(t, newConservation("orders", read, time.Now, slog.New(slog.DiscardHandler)).run(ctx))
}
