package main

import (
	"context"
	"fmt"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/rig"
)

// keptRate is what scattered refusals may leave of the rate without.
const keptRate = 90 // percent

// aFewRefusals drains one backlog after the other: the first and the last while the provider takes everything, the ones between
// while it refuses one charge in a hundred by 429.
func aFewRefusals(backlog int) func(context.Context, *scene) ([]figure, error) {
	return func(ctx context.Context, s *scene) ([]figure, error) {
		if _, err := s.join(ctx); err != nil {
			return nil, err
		}
		var rates []float64
		for _, mode := range []providersim.Kind{providersim.OK, providersim.Some(429), providersim.OK, providersim.Some(429)} {
			if err := s.provider.Sim.SetMode(mode, time.Time{}); err != nil {
				return nil, err
			}
			rate, err := s.drained(ctx, backlog/2)
			if err != nil {
				return nil, err
			}
			rates = append(rates, rate)
		}
		a, err := s.account(ctx)
		without, with := (rates[0]+rates[2])/2, (rates[1]+rates[3])/2
		return append([]figure{
			told("without", fmt.Sprintf("%.0f/s", without)), told("with", fmt.Sprintf("%.0f/s", with)), atLeast("kept", int(100*with/without), keptRate),
		}, a.figures()...), err
	}
}

// drained produces a backlog and is the rate at which nine in ten of it were charged: the last ones may be those that were told
// to come again in a second.
func (s *scene) drained(ctx context.Context, backlog int) (rate float64, err error) {
	began, most := time.Now(), backlog*9/10
	if err := s.orders.Backlog(ctx, s, backlog, nil); err != nil {
		return 0, err
	}
	if err := rig.Await(ctx, restWithin, func() error {
		orders, err := s.count(ctx, s.ladder.Main())
		if left := orders - s.provider.Sim.Summary().Charged; err == nil && left > backlog-most {
			err = fmt.Errorf("%d orders are not charged", left)
		}
		return err
	}); err != nil {
		return 0, err
	}
	rate = float64(most) / time.Since(began).Seconds()
	return rate, s.awaitAll(ctx, restWithin)
}
