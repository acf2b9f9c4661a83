package main

import (
	"context"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/netcut"
	"example.com/billing/load/rig"
)

// fault is something that concerns every order, and that ends.
type fault struct {
	name string
	set  func(ctx context.Context, s *scene, m *member, broken bool) error
}

var faults = []fault{
	{"provider answers 503", provider(providersim.Status503)},
	{"provider refuses connections", link("provider", netcut.Refuse)},
	{"provider answers 401", provider(providersim.Status401)},
	{"provider hangs", provider(providersim.Hang)},
	{"database gone", link("postgres", netcut.Refuse)},
	{"database silent", link("postgres", netcut.Stall)},
	{"database read-only", func(ctx context.Context, s *scene, _ *member, broken bool) error {
		return s.database.ReadOnly(ctx, broken)
	}},
	{"broker gone", link("broker", netcut.Refuse)},
	{"broker silent", link("broker", netcut.Stall)},
}

func provider(k providersim.Kind) func(context.Context, *scene, *member, bool) error {
	return func(_ context.Context, s *scene, _ *member, broken bool) error {
		if !broken {
			k = providersim.OK
		}
		return s.provider.Sim.SetMode(k, time.Time{})
	}
}

// link is the network between the instance and one of its servers.
func link(to string, k netcut.Kind) func(context.Context, *scene, *member, bool) error {
	return func(_ context.Context, _ *scene, m *member, broken bool) error {
		if broken {
			return m.Break(to, netcut.Fault{Kind: k})
		}
		return m.Heal()
	}
}

const (
	recoverWithin = 2 * time.Second
	// maxCounted is what may fail before the breaker opens: at most ten in a run, which a success that was still under way
	// begins anew.
	maxCounted = 20
)

// cured breaks and cures while orders keep coming.
func (f fault) cured(lasts time.Duration) func(context.Context, *scene) ([]figure, error) {
	return func(ctx context.Context, s *scene) ([]figure, error) {
		m, err := s.warm(ctx, steady)
		if err != nil {
			return nil, err
		}
		if err := f.set(ctx, s, m, true); err != nil {
			return nil, err
		}
		rig.Pause(ctx, lasts)
		cured := time.Now()
		if err := f.set(ctx, s, m, false); err != nil {
			return nil, err
		}
		if err := s.awaitCharges(ctx, 1); err != nil {
			return nil, err
		}
		a, err := s.rest(ctx)
		first, last := a.chargesSince(cured)
		return append([]figure{
			within("first charge", first.Sub(cured), recoverWithin), told("all charged", seconds(last.Sub(cured))), atMost("counted failures", a.counted, maxCounted),
		}, a.figures()...), err
	}
}
