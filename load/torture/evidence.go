package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/platform/postgres"
	"example.com/billing/load/rig"
	"example.com/billing/load/torture/verdict"
)

// starts counts the processes of the service so far. Each begins to count dead letters anew, unless there is a flood.
func (s *stage) starts() (n int) {
	for _, i := range s.all() {
		i.mu.Lock()
		n += i.starts
		i.mu.Unlock()
	}
	return n
}

// gather collects the evidence of a round at rest.
func (s *stage) gather(ctx context.Context, events []loadgen.Event, commits []verdict.Commit, began time.Time) (c verdict.Case, err error) {
	c = verdict.Case{
		Events: append(events, s.flooded...), Committed: commits, Accounts: s.accounts(), Requests: s.provider.Requests(), Redelivery: time.Now(),
		Outages: s.outages, SetBack: s.plan.has("setback"), FloodAllowed: floodCount * s.starts(),
	}
	for _, f := range s.plan.faults {
		if at := began.Add(f.at); f.redelivers() && at.Before(c.Redelivery) {
			c.Redelivery = at
		}
	}
	if c.Main, err = s.read(ctx, s.ladder.Main(), nil); err != nil {
		return c, err
	}
	for _, t := range s.ladder.Tiers() {
		records, err := s.read(ctx, t.Topic, nil)
		if err != nil {
			return c, err
		}
		c.Tiers = append(c.Tiers, records)
	}
	if s.plan.has("delays") {
		c.Ladders = true
		if c.Other, err = s.read(ctx, s.otherLadder().Tiers()[1].Topic, nil); err != nil {
			return c, err
		}
	}
	if c.Dead, err = s.read(ctx, s.ladder.DeadLetters(), nil); err != nil {
		return c, err
	}
	if c.Results, err = s.read(ctx, results, s.from); err != nil {
		return c, err
	}
	c.Books, err = s.readBooks(ctx)
	return c, err
}

// accounts are how often money moved.
func (s *stage) accounts() map[string]verdict.Account {
	accounts := map[string]verdict.Account{}
	for _, e := range s.provider.Sim.Ledger() {
		accounts[e.Reference] = verdict.Account{Charges: e.Charges, First: e.FirstCharged, Amount: e.Amount + " " + e.Currency}
	}
	return accounts
}

// read is what a topic holds now, from the given offsets or its beginning.
func (s *stage) read(ctx context.Context, topic string, from map[int32]int64) ([]verdict.Record, error) {
	found, err := rig.Records(ctx, s.kafka.addresses(), topic, from)
	var records []verdict.Record
	for _, r := range found {
		records = append(records, record(r))
	}
	return records, err
}

func record(r *kgo.Record) verdict.Record {
	v := verdict.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, At: r.Timestamp, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		v.Headers = append(v.Headers, verdict.Header{Key: h.Key, Value: string(h.Value)})
	}
	return v
}

// readBooks asks for the service's own balance, by its own statement.
func (s *stage) readBooks(ctx context.Context) (verdict.Books, error) {
	books, err := s.booksAtRest(ctx)
	if err != nil {
		return books, err
	}
	pool, err := postgres.Open(ctx, postgres.Config{URL: s.database.URL, MaxConns: pgstore.MinConns})
	if err != nil {
		return books, err
	}
	defer pool.Close()
	store, err := pgstore.New(pgstore.Config{Pool: pool, Lease: 15 * time.Second, ProviderTimeout: 10 * time.Second, Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return books, err
	}
	topics, err := s.admin.ListTopics(ctx, s.ladder.Main())
	if err != nil {
		return books, err
	}
	b, err := store.Balance(ctx, uuid.UUID(topics[s.ladder.Main()].ID))
	books.Difference, books.Taken, books.Waiting = b.Difference, b.Taken, b.Waiting
	return books, err
}
