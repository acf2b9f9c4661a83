package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/billing/load/rig"
)

// What a take-over may take: the defaults of session.timeout.ms and BILLING_LEASE, and a little.
const (
	newWithin      = 10*time.Second + 2*time.Second
	inFlightWithin = newWithin + 15*time.Second
)

// takeOver kills one of two instances while orders keep coming to all partitions.
func takeOver(ctx context.Context, s *scene) ([]figure, error) {
	m, err := s.warm(ctx, 5*steady)
	if err != nil {
		return nil, err
	}
	if _, err := s.join(ctx); err != nil {
		return nil, err
	}
	if err := rig.Await(ctx, 30*time.Second, func() error { return rig.Stable(ctx, s.Admin, len(s.crew), s.groups()) }); err != nil {
		return nil, err
	}
	if err := s.awaitCharges(ctx, 5*steady); err != nil {
		return nil, err
	}
	killed := time.Now()
	m.Kill()
	rig.Pause(ctx, 500*time.Millisecond) // what the other one had in flight then is decided
	orphans, err := s.inFlight(ctx, killed)
	if err != nil {
		return nil, err
	}
	settled, err := s.awaitSettled(ctx, orphans)
	if err != nil {
		return nil, err
	}
	a, err := s.rest(ctx)
	return append([]figure{
		within("first new order, slowest partition", a.slowestPartition(killed), newWithin), told("in flight at the kill", fmt.Sprint(len(orphans))),
		within("those settled", settled.Sub(killed), inFlightWithin), atMost("counted failures", a.counted, 0),
	}, a.figures()...), err
}

func (s *scene) groups() []string {
	groups := []string{s.in.Group}
	for _, t := range s.ladder.Tiers() {
		groups = append(groups, t.Group)
	}
	return groups
}

// inFlight are the orders whose claim is of before an instant and not settled.
func (s *scene) inFlight(ctx context.Context, before time.Time) ([]string, error) {
	conn, err := pgx.Connect(ctx, s.database.URL)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT order_id::text FROM charges WHERE state = 'in_flight' AND updated_at <= $1`, before)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// awaitSettled is when none of the orders is in flight any more.
func (s *scene) awaitSettled(ctx context.Context, orders []string) (at time.Time, err error) {
	conn, err := pgx.Connect(ctx, s.database.URL)
	if err != nil {
		return at, err
	}
	defer conn.Close(ctx)
	err = rig.Await(ctx, restWithin, func() error {
		var left int
		at = time.Now()
		err := conn.QueryRow(ctx, `SELECT count(*) FROM charges WHERE order_id::text = ANY($1) AND state <> 'succeeded'`, orders).Scan(&left)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d orders are not settled", left)
		}
		return err
	})
	return at, err
}

// slowestPartition is how long after an instant the last partition had an order charged that was produced after it.
func (a account) slowestPartition(since time.Time) (slowest time.Duration) {
	first := map[int32]time.Time{}
	for _, o := range a.orders {
		if at, seen := first[o.partition]; o.at.After(since) && !o.charged.IsZero() && (!seen || o.charged.Before(at)) {
			first[o.partition] = o.charged
		}
	}
	for _, at := range first {
		slowest = max(slowest, at.Sub(since))
	}
	if len(first) < partitions {
		return 0 // one has none: missed
	}
	return slowest
}
