package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/billing/load/torture/netcut"
)

// settings are the environment of an instance: ours without any BILLING_… that may be there.
func (s *stage) settings(brokers, database, provider string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "BILLING_") && !strings.HasPrefix(e, "OTEL_") {
			env = append(env, e)
		}
	}
	var delays []string
	for _, d := range retryDelays {
		delays = append(delays, d.String())
	}
	return append(env,
		"BILLING_KAFKA_BROKERS="+brokers, "BILLING_DATABASE_URL="+database, "BILLING_PROVIDER_URL="+provider, "BILLING_PROVIDER_TOKEN="+providerToken,
		"BILLING_TOPIC="+s.ladder.Main(), "BILLING_GROUP="+s.group, "BILLING_RETRY_DELAYS="+strings.Join(delays, ","),
		"BILLING_PROVIDER_TIMEOUT=1s", "BILLING_LEASE=4s", fmt.Sprintf("BILLING_CONCURRENCY=%d", concurrency),
		// How long brokers wait at a rebalance for a member that does not answer is the longest time between two polls.
		fmt.Sprintf("BILLING_KAFKA_EXTRA=session.timeout.ms=%d,max.poll.interval.ms=%d", s.kafka.session(), maxPoll.Milliseconds()), "BILLING_HTTP_ADDR=127.0.0.1:0",
	)
}

func (s *stage) addInstance(o options, name string) (err error) {
	i := &instance{name: name, binary: o.binary, log: filepath.Join(s.dir, name+".log"), times: s.times, changed: make(chan struct{}, 1)}
	host, err := s.database.host()
	if err != nil {
		return err
	}
	if i.brokers, err = netcut.OpenCluster(s.kafka.addresses()); err != nil {
		return err
	}
	if i.postgres, err = netcut.Open(host); err != nil {
		return err
	}
	if i.provider, err = netcut.Open(s.provider.addr); err != nil {
		return err
	}
	var brokers []string
	for _, l := range i.brokers.Links() {
		brokers = append(brokers, l.Addr)
	}
	i.env = s.settings(strings.Join(brokers, ","), s.database.through(i.postgres.Addr), "http://"+i.provider.Addr)
	s.crew = append(s.crew, i)
	return nil
}

// raise starts the instances, waits until they have shared the partitions out, and weighs them. A rebalance later than that
// has a fault as its cause.
func (s *stage) raise(ctx context.Context) error {
	keep, cancel := context.WithCancel(ctx)
	s.stopKeeping = cancel
	for _, i := range append([]*instance{s.guest}, s.crew...) {
		s.keeping.Go(func() { i.keep(keep) })
	}
	for _, i := range s.crew {
		i.want(true)
	}
	if err := s.awaitServing(ctx, 30*time.Second); err != nil {
		return err
	}
	if err := awaitCalm(ctx, 40*time.Second, 12, func() error { return s.unstable(ctx) }); err != nil {
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
	return await(ctx, within, func() error {
		for _, i := range s.crew {
			if i.running() == nil || i.addr() == "" {
				return fmt.Errorf("%s does not serve yet", i.name)
			}
			if _, err := i.metric(ctx, "go_goroutines"); err != nil {
				return fmt.Errorf("%s does not answer yet: %w", i.name, err)
			}
		}
		return nil
	})
}
