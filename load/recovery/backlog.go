package main

import (
	"context"
	"fmt"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/rig"
)

// longOutage produces a backlog while the provider answers 503. When it ends, every order is still there, with all of its
// attempts.
func longOutage(lasts time.Duration, backlog int) func(context.Context, *scene) ([]figure, error) {
	return func(ctx context.Context, s *scene) ([]figure, error) {
		m, err := s.warm(ctx, steady)
		if err != nil {
			return nil, err
		}
		if err := s.endFlow(); err != nil {
			return nil, err
		}
		broken := time.Now()
		if err := s.provider.Sim.SetMode(providersim.Status503, time.Time{}); err != nil {
			return nil, err
		}
		if err := s.orders.AtRate(ctx, s, float64(backlog)/lasts.Seconds(), backlog, nil); err != nil {
			return nil, err
		}
		rig.Pause(ctx, lasts-time.Since(broken))
		asked := s.provider.Sim.Summary().Statuses["503"]
		before, err := rig.UsageOf(m.PID())
		if err != nil {
			return nil, err
		}
		cured := time.Now()
		if err := s.provider.Sim.SetMode(providersim.OK, time.Time{}); err != nil {
			return nil, err
		}
		if err := s.awaitAll(ctx, restWithin+time.Duration(backlog)*time.Millisecond); err != nil {
			return nil, err
		}
		a, err := s.account(ctx)
		most := 0
		for _, o := range a.orders {
			most = max(most, o.requests)
		}
		first, last := a.chargesSince(cured)
		return append([]figure{
			told("orders", fmt.Sprint(len(a.orders))), told("requests meanwhile", fmt.Sprint(asked)), told("most of one order", fmt.Sprint(most)),
			within("first charge", first.Sub(cured), recoverWithin), told("drained", fmt.Sprintf("%.0f/s", float64(backlog)/last.Sub(first).Seconds())),
			atMost("counted failures", a.counted, maxCounted), told("memory at the cure", rig.Megabytes(before.RSS)),
		}, a.figures()...), err
	}
}
