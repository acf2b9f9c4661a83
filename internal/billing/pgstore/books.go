package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Books are the balance of the main topic at one instant, and what is wrong in it.
type Books struct {
	At         time.Time         `json:"at"`
	Partitions map[int32]Balance `json:"partitions"`
	Total      Balance           `json:"total"`
	Flaws      []Flaw            `json:"flaws"` // not more than MaxFlaws of one kind
}

// MaxFlaws bounds what is listed of one kind, and the ranges of offsets in one flaw.
const MaxFlaws = 100

// FlawKind says what is wrong. The list is closed.
type FlawKind string

// The kinds of flaws. A claim, a retry or a replay under way never looks like any of these, nor does a crash that is made
// good when the record comes again. What can is left out: an open dead letter whose order was charged since, or a dead
// record without a letter, which a killed process had no time to publish.
const (
	NoFate          FlawKind = "no_fate"          // taken, and nothing tells where the record ended
	Unsettled       FlawKind = "unsettled"        // taken, and the order's row does not tell yet whether it was charged
	NotCounted      FlawKind = "not_counted"      // ended somewhere, and never counted as taken
	TwoOrders       FlawKind = "two_orders"       // two orders were charged for the record
	TwoFates        FlawKind = "two_fates"        // charged, and its fate is another order's or says that nothing was charged for it
	NoEvent         FlawKind = "no_event"         // the order is decided, and no result event was ever written
	EventOnly       FlawKind = "event_only"       // a result event tells of a charge, the order's row does not
	DecidedUnknown  FlawKind = "decided_unknown"  // the order is decided and its outcome unknown
	UnlistedUnknown FlawKind = "unlisted_unknown" // the outcome is unknown, and the reconciler does not know that
)

// Flaw is something that is wrong with records of a partition, with an order, or with both.
type Flaw struct {
	Kind      FlawKind   `json:"kind"`
	Partition *int32     `json:"partition,omitempty"`
	Records   int64      `json:"records,omitempty"` // fewer than the offsets tell when some of those hold no record
	Offsets   []Offsets  `json:"offsets,omitempty"`
	OrderID   *uuid.UUID `json:"order_id,omitempty"`
}

// Offsets is a range; both ends belong to it.
type Offsets struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// CheckBooks reads everything that the balance is made of, in one snapshot: while the service runs, what it finds is as
// true as at rest. It walks through the charges a few times.
func (s *Store) CheckBooks(ctx context.Context, topicID uuid.UUID) (b Books, err error) {
	err = s.unhurried(ctx, "check the books", func(ctx context.Context, tx pgx.Tx) error { return b.read(ctx, tx, topicID) })
	return b, err
}

func (b *Books) read(ctx context.Context, tx pgx.Tx, topicID uuid.UUID) (err error) {
	if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&b.At); err != nil {
		return err
	}
	if b.Partitions, err = readBalances(ctx, tx, topicID); err != nil {
		return err
	}
	b.Total = Sum(b.Partitions)
	found, err := checkRecords(ctx, tx, topicID)
	if err != nil {
		return err
	}
	b.Flaws = append([]Flaw{}, found...) // an empty list, not null
	for _, check := range []struct {
		sql  string
		args []any
	}{{twoFatesSQL, []any{topicID}}, {ordersSQL, nil}, {eventsSQL, nil}} {
		found, err := flaws(ctx, tx, check.sql, check.args...)
		if err != nil {
			return err
		}
		b.Flaws = append(b.Flaws, found...)
	}
	return nil
}

// The statements are sorted also for the planner: with a mere LIMIT it hopes to find a hundred flaws soon, and walks through
// everything row by row to find none.

// A record that was charged after it had waited, or after it was dead, has an old row of fates; these can be no old ones.
const twoFatesSQL = `
SELECT 'two_fates', c.origin_partition, c.origin_offset, c.order_id
  FROM charges c JOIN record_fates f ON f.topic_id = $1 AND f.partition = c.origin_partition AND f."offset" = c.origin_offset
 WHERE c.origin_topic_id = $1 AND c.state = 'succeeded' AND (f.fate IN ('duplicate', 'replay') OR f.order_id <> c.order_id)
 ORDER BY 1, 2, 3 LIMIT 100`

// Each of these is written by the statement that changes the state.
const ordersSQL = `
SELECT CASE WHEN c.state IN ('unknown', 'review') THEN 'unlisted_unknown' WHEN c.outcome_unknown THEN 'decided_unknown' ELSE 'no_event' END,
       NULL::integer, NULL::bigint, c.order_id
  FROM charges c
 WHERE c.state IN ('succeeded', 'declined', 'rejected') AND (c.outcome_unknown OR c.event_version = 0)
    OR c.state IN ('unknown', 'review') AND NOT EXISTS (SELECT FROM unknown_outcomes u WHERE u.order_id = c.order_id)
 ORDER BY 1, 4 LIMIT 100`

// Of failures an event may tell what is over by now: the order was replayed since.
const eventsSQL = `
SELECT 'event_only', NULL::integer, NULL::bigint, o.order_id
  FROM outbox o LEFT JOIN charges c ON c.order_id = o.order_id
 WHERE o.event_type = 'billing.charge.succeeded.v1' AND c.state IS DISTINCT FROM 'succeeded'
 ORDER BY 1, 4 LIMIT 100`

// flaws are the rows of one of the statements here: kind, partition, offset, order.
func flaws(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]Flaw, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (f Flaw, err error) {
		var offset *int64
		if err := row.Scan(&f.Kind, &f.Partition, &offset, &f.OrderID); err != nil || offset == nil {
			return f, err
		}
		f.Records, f.Offsets = 1, []Offsets{{*offset, *offset}}
		return f, nil
	})
}
