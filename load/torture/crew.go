package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.com/billing/load/rig"
)

const (
	// floodCount is how many refusals an instance takes for those of single orders.
	floodCount = 20
	adminToken = "torture-operator-token-of-a-round"
)

// settings are those that make a round short.
func (s *stage) settings() []string {
	return []string{
		"BILLING_PROVIDER_TOKEN=" + providerToken, "BILLING_RETRY_DELAYS=" + list(retryDelays),
		fmt.Sprintf("BILLING_FLOOD_COUNT=%d", floodCount), "BILLING_ADMIN_TOKENS=torture:approver:" + adminToken, "BILLING_PROVIDER_TIMEOUT=1s", "BILLING_LEASE=4s", fmt.Sprintf("BILLING_CONCURRENCY=%d", concurrency),
		// How long brokers wait at a rebalance for a member that does not answer is the longest time between two polls.
		fmt.Sprintf("BILLING_KAFKA_EXTRA=session.timeout.ms=%d,max.poll.interval.ms=%d", s.kafka.session(), maxPoll.Milliseconds()),
	}
}

// list is how delays are set.
func list(delays []time.Duration) string {
	var texts []string
	for _, d := range delays {
		texts = append(texts, d.String())
	}
	return strings.Join(texts, ",")
}

func (s *stage) addInstance(in rig.Installation, name string) error {
	place, err := in.Place(name, s.dir)
	if err != nil {
		return err
	}
	s.crew = append(s.crew, &instance{Instance: place, times: s.times, changed: make(chan struct{}, 1)})
	return nil
}

// all are the instances, the guest first.
func (s *stage) all() []*instance { return append([]*instance{s.guest}, s.crew...) }

// raise starts the instances, waits until they have shared the partitions out, and weighs them. A rebalance later than that
// has a fault as its cause.
func (s *stage) raise(ctx context.Context) error {
	keep, cancel := context.WithCancel(ctx)
	s.stopKeeping = cancel
	for _, i := range s.all() {
		s.keeping.Go(func() { i.keep(keep) })
	}
	for _, i := range s.crew {
		i.want(true)
	}
	if err := s.awaitServing(ctx, 30*time.Second); err != nil {
		return err
	}
	if err := rig.AwaitCalm(ctx, 40*time.Second, 12, func() error { return s.unstable(ctx) }); err != nil {
		return err
	}
	for _, i := range s.crew {
		var err error
		if i.atStart, err = i.weigh(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitServing waits until every instance of the crew has a process that serves.
func (s *stage) awaitServing(ctx context.Context, within time.Duration) error {
	return rig.Await(ctx, within, func() error {
		for _, i := range s.crew {
			if i.running() == nil || i.Addr() == "" {
				return fmt.Errorf("%s does not serve yet", i.Name)
			}
			if _, err := i.Metric(ctx, "go_goroutines"); err != nil {
				return fmt.Errorf("%s does not answer yet: %w", i.Name, err)
			}
		}
		return nil
	})
}
