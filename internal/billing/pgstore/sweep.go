package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/postgres"
)

// sweptDetail is for people who read the history of the order.
const sweptDetail = "the lease ended long ago and no message took the order up"

// sweepSQL makes the outcome unknown of claims that nobody ended and nobody took over (hazard H3), in one stretch of the
// table. A message that comes later claims the row as it would have claimed the expired one.
//
// The attempt has an id of its own. Under the dead claim's, a sender that wakes up late would take it for its own
// settlement, and its success would be dropped.
const sweepSQL = `
WITH expired AS (
    SELECT order_id FROM charges
     WHERE ctid >= $1 AND ctid < $2 AND state = 'in_flight' AND lease_until < now() - $3::interval
       FOR UPDATE SKIP LOCKED
), swept AS (
    UPDATE charges c SET state = 'unknown', reason = $4, outcome_unknown = true, claim_id = NULL, lease_until = NULL, updated_at = now()
      FROM expired e WHERE c.order_id = e.order_id
    RETURNING c.order_id, c.generation, c.attempts, c.last_sent_at
), attempts AS (
    INSERT INTO charge_attempts (order_id, generation, attempt, claim_id, kind, started_at, finished_at, reason, detail)
    SELECT order_id, generation, attempts, gen_random_uuid(), 'system', coalesce(last_sent_at, now()), now(), $4, $5 FROM swept
), listed AS (
    INSERT INTO unknown_outcomes (order_id) SELECT order_id FROM swept ON CONFLICT DO NOTHING
)
SELECT count(*) FROM swept`

// Sweep looks at the rows on the pages [from, to) of the charges for claims whose lease ended longer than grace ago.
func (s *Store) Sweep(ctx context.Context, from, to uint32, grace time.Duration) (n int64, err error) {
	page := func(n uint32) pgtype.TID { return pgtype.TID{BlockNumber: n, Valid: true} }
	err = s.patiently(ctx, "sweep expired leases", func(ctx context.Context, db session) error {
		return db.QueryRow(ctx, sweepSQL, page(from), page(to), grace, string(failure.Unclassified), sweptDetail).Scan(&n)
	})
	return n, err
}

// Pages is the size of the charges.
func (s *Store) Pages(ctx context.Context) (n uint32, err error) {
	err = s.patiently(ctx, "size of charges", func(ctx context.Context, db session) error {
		return db.QueryRow(ctx, `SELECT pg_relation_size('charges') / current_setting('block_size')::bigint`).Scan(&n)
	})
	return n, err
}

// Hold takes or renews a lease for what only one instance should do. It reports false while another has it.
func (s *Store) Hold(ctx context.Context, name string, owner uuid.UUID, term time.Duration) (held bool, err error) {
	err = s.patiently(ctx, "lease "+name, func(ctx context.Context, db session) error {
		held, err = postgres.TakeLease(ctx, db, name, owner, term)
		return err
	})
	return held, err
}
