package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/billing/internal/retry"
	"example.com/billing/load/rig"
)

// otherDelays are those that the settings are changed to for a while: one retry topic is another one.
var otherDelays = []time.Duration{time.Second, 3 * time.Second, 4 * time.Second}

// otherLadder is the ladder of the other delays.
func (s *stage) otherLadder() retry.Ladder {
	return retry.NewLadder(s.ladder.Main(), s.group, otherDelays)
}

// changeDelays changes the retry delays of one instance after the other, and later back again. Meanwhile instances of both
// settings run, and each change leaves a topic behind that nobody reads; a person drains it, as the start demands.
func (s *stage) changeDelays(ctx context.Context) (undo func() error, err error) {
	before, other := s.in, s.in
	other.Settings = append(slices.Clone(s.in.Settings), "BILLING_RETRY_DELAYS="+list(otherDelays))
	if err := other.Prepare(ctx, s.plan.partitions); err != nil {
		return nothing, err
	}
	var rolling sync.WaitGroup
	rolling.Go(func() {
		s.roll(ctx, func(i *instance) { i.Env = append(i.Env, "BILLING_RETRY_DELAYS="+list(otherDelays)) })
	})
	return func() error {
		rolling.Wait()
		if err := s.drain(ctx, other, s.ladder.Tiers()[1].Topic); err != nil {
			return err
		}
		rolling.Go(func() {
			s.roll(ctx, func(i *instance) { i.Env = append(i.Env, "BILLING_RETRY_DELAYS="+list(retryDelays)) })
		})
		rolling.Wait()
		return s.drain(ctx, before, s.otherLadder().Tiers()[1].Topic)
	}, nil
}

// drain lets the service's command read a topic to its end. Other things may be broken meanwhile.
func (s *stage) drain(ctx context.Context, in rig.Installation, topic string) error {
	return rig.Await(ctx, 2*time.Minute, func() error {
		out, err := in.Run(ctx, "topics", "drain", topic)
		s.times.note("drain of %s: %v: %s", topic, err, out)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}
