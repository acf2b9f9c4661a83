package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/postgres"
	"example.com/billing/load/rig"
)

// lab is what all trials share: Kafka, Postgres, the binaries, and a place for logs.
type lab struct {
	dir      string
	self     string // this binary, for the children
	billing  string // the service's
	brokers  string
	database string // URL of a database in which others can be made
	kafka    *kgo.Client
	admin    *kadm.Client
	servers  string // what Kafka and Postgres are, for the report
	closers  []func() error
}

func openLab(ctx context.Context, o options) (l *lab, err error) {
	l = &lab{brokers: os.Getenv("BENCH_KAFKA_BROKERS"), database: os.Getenv("BENCH_DATABASE_URL"), billing: o.billing}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(true))
		}
	}()
	if l.dir, err = rig.TempDir("billing-bench-"); err != nil {
		return l, err
	}
	if l.self, err = os.Executable(); err != nil {
		return l, err
	}
	if slices.Contains(o.programs, "service") && l.billing == "" {
		if l.billing, err = rig.Build(ctx, l.dir); err != nil {
			return l, err
		}
	}
	if err := l.openKafka(ctx); err != nil {
		return l, err
	}
	return l, l.openPostgres(ctx)
}

func (l *lab) openKafka(ctx context.Context) error {
	l.servers = "Kafka " + l.brokers
	if l.brokers == "" {
		broker, err := rig.StartBroker(l.dir)
		if err != nil {
			return err
		}
		l.closers = append(l.closers, func() error { broker.Kill(); return nil })
		l.brokers, l.servers = broker.Addr, "embedded Kafka"
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(l.brokers, ",")...), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return fmt.Errorf("open Kafka: %w", err)
	}
	l.kafka, l.admin = client, kadm.NewClient(client)
	l.closers = append(l.closers, func() error { client.Close(); return nil })
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("reach Kafka at %s: %w", l.brokers, err)
	}
	return nil
}

func (l *lab) openPostgres(ctx context.Context) error {
	if l.database == "" {
		server, err := postgres.Start(ctx, postgres.Config{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		if err != nil {
			return err
		}
		l.closers = append(l.closers, server.Stop)
		l.database = server.URL
	}
	postgres, err := rig.DescribePostgres(ctx, l.database)
	l.servers += ", " + postgres
	return err
}

// say tells how far the run is; the table comes at the end.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// close stops what was started. After a failure the logs stay.
func (l *lab) close(failed bool) error {
	var errs []error
	for _, c := range slices.Backward(l.closers) {
		errs = append(errs, c())
	}
	if failed {
		say("the logs are kept in %s", l.dir)
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}
