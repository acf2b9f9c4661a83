package main

import (
	"context"
	"fmt"
	"time"

	"example.com/billing/internal/demo/providersim"
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
			began := time.Now()
			if err := s.orders.Backlog(ctx, s, backlog/4, nil); err != nil {
				return nil, err
			}
			if err := s.awaitAll(ctx, restWithin); err != nil {
				return nil, err
			}
			rates = append(rates, float64(backlog/4)/time.Since(began).Seconds())
		}
		a, err := s.account(ctx)
		without, with := (rates[0]+rates[2])/2, (rates[1]+rates[3])/2
		return append([]figure{
			told("without", fmt.Sprintf("%.0f/s", without)), told("with", fmt.Sprintf("%.0f/s", with)), atLeast("kept", int(100*with/without), keptRate),
		}, a.figures()...), err
	}
}
