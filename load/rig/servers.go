package rig

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/postgres"
	"example.com/billing/internal/platform/kafkaclient"
)

// Servers are Kafka and Postgres: given ones, or embedded ones that end with Close.
type Servers struct {
	Brokers  []string // host:port
	Database string   // URL of a database on whose server others can be made
	Kafka    *kgo.Client
	Admin    *kadm.Client
	Are      string // what they are, for a report

	closers []func()
}

// OpenServers opens them; what is empty is embedded, in a directory. With durable the embedded Postgres writes as in production.
func OpenServers(ctx context.Context, dir, brokers, database string, durable bool) (s *Servers, err error) {
	s = &Servers{Database: database, Are: "Kafka " + brokers}
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	if brokers == "" {
		broker, err := StartBroker(dir)
		if err != nil {
			return s, err
		}
		s.closers = append(s.closers, broker.Kill)
		brokers, s.Are = broker.Addr, "embedded Kafka"
	}
	s.Brokers = strings.Split(brokers, ",")
	if s.Kafka, err = kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))); err != nil {
		return s, fmt.Errorf("open Kafka: %w", err)
	}
	s.Admin = kadm.NewClient(s.Kafka)
	s.closers = append(s.closers, s.Kafka.Close)
	if err := s.Kafka.Ping(ctx); err != nil {
		return s, fmt.Errorf("reach Kafka at %s: %w", brokers, err)
	}
	if database == "" {
		server, err := postgres.Start(ctx, postgres.Config{Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Sync: durable})
		if err != nil {
			return s, err
		}
		s.closers = append(s.closers, func() { _ = server.Stop() }) // its data goes with it
		s.Database = server.URL
	}
	version, err := describePostgres(ctx, s.Database)
	s.Are += ", " + version
	return s, err
}

// Close ends what was started.
func (s *Servers) Close() {
	for _, c := range slices.Backward(s.closers) {
		c()
	}
}

// PublishAll makes the servers a loadgen.Publisher, past all links.
func (s *Servers) PublishAll(ctx context.Context, records []kafkaclient.Record) []error {
	errs := make([]error, len(records))
	var wait sync.WaitGroup
	wait.Add(len(records))
	for i, r := range records {
		s.Kafka.Produce(ctx, &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}, func(_ *kgo.Record, err error) {
			errs[i] = err
			wait.Done()
		})
	}
	wait.Wait()
	return errs
}
