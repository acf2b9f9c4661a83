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
	name     string
	set      func(ctx context.Context, s *scene, m *member, broken bool) error
	settings []string // beside the defaults
}

var faults = []fault{
	{name: "provider answers 503", set: provider(providersim.Status503)},
	{name: "provider refuses connections", set: link("provider", netcut.Refuse)},
	{name: "provider answers 401", set: provider(providersim.Status401)},
	{name: "provider answers 408", set: provider(providersim.Status(408))},
	{name: "provider answers 429", set: provider(providersim.Status429)},
	{name: "provider hangs", set: provider(providersim.Hang)},
	{name: "provider hangs, then answers 409", set: provider(providersim.Busy)},
	{name: "look-ups prove nothing", set: provider(providersim.Unsure), settings: asksFirst},
	{name: "database gone", set: link("postgres", netcut.Refuse)},
	{name: "database silent", set: link("postgres", netcut.Stall)},
	{name: "database read-only", set: func(ctx context.Context, s *scene, _ *member, broken bool) error {
		return s.database.ReadOnly(ctx, broken)
	}},
	{name: "database answers 55000", set: sqlState("55000")},
	{name: "broker gone", set: link("broker", netcut.Refuse)},
	{name: "broker silent", set: link("broker", netcut.Stall)},
}

// asksFirst makes nearly every order one whose key the provider may have forgotten: it is looked up before it is sent.
var asksFirst = []string{"BILLING_KEY_MARGIN=80s", "BILLING_PROVIDER_KEY_TTL=80001ms"}

// sqlState fails every statement that writes to an order's row.
func sqlState(code string) func(context.Context, *scene, *member, bool) error {
	return func(ctx context.Context, s *scene, _ *member, broken bool) error {
		if !broken {
			return s.database.Trap(ctx, "")
		}
		if err := s.database.SetTraps(ctx, []string{"charges"}); err != nil {
			return err
		}
		return s.database.Trap(ctx, "RAISE EXCEPTION 'made by recovery' USING ERRCODE = '"+code+"';")
	}
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
		return s.recovered(ctx, cured)
	}
}

// recovered is what is asked of every short outage.
func (s *scene) recovered(ctx context.Context, cured time.Time) ([]figure, error) {
	if err := s.awaitCharges(ctx, 1); err != nil {
		return nil, err
	}
	a, err := s.rest(ctx)
	first, last := a.chargesSince(cured)
	return append([]figure{
		within("first charge", first.Sub(cured), recoverWithin), told("all charged", seconds(last.Sub(cured))), atMost("counted failures", a.counted, maxCounted),
	}, a.figures()...), err
}

// restartPause is between two restarts of an instance.
const restartPause = 2 * time.Second

// restarted is cured, and meanwhile the instance is restarted again and again, as in a rolling deploy.
func (f fault) restarted(lasts time.Duration) func(context.Context, *scene) ([]figure, error) {
	return func(ctx context.Context, s *scene) ([]figure, error) {
		m, err := s.warm(ctx, steady)
		if err != nil {
			return nil, err
		}
		broken := time.Now()
		if err := f.set(ctx, s, m, true); err != nil {
			return nil, err
		}
		for time.Since(broken) < lasts {
			rig.Pause(ctx, restartPause)
			if _, err := m.Stop(stopWithin + stopSlack); err != nil {
				return nil, err
			}
			if err := m.serve(ctx); err != nil {
				return nil, err
			}
		}
		rig.Pause(ctx, restartPause) // it has its partitions
		cured := time.Now()
		if err := f.set(ctx, s, m, false); err != nil {
			return nil, err
		}
		return s.recovered(ctx, cured)
	}
}
