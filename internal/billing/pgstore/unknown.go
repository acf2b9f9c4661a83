package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// Row is the row of an order as it stood when it was read.
type Row struct {
	OrderID          uuid.UUID
	Amount           billing.Money
	State            billing.State
	Reason           failure.Reason
	Unknown          bool // an attempt of this generation may have moved money
	Generation       int
	Attempts         int
	Version          int // of the last result event
	ProviderChargeID string
	Leased           bool          // a claim with a live lease works on it
	Quiet            time.Duration // since something may have been sent for the last time, by the database's clock
}

// Undecided reports whether nobody knows if the order is charged, and nobody works on it. A claim whose lease has ended
// counts: whoever took it over would find the outcome unknown.
func (r Row) Undecided() bool {
	return r.State == billing.Unknown || r.State == billing.InFlight && !r.Leased
}

// Rows reads the rows of the orders; one that is missing was never claimed.
func (s *Store) Rows(ctx context.Context, orders []uuid.UUID) (found map[uuid.UUID]Row, err error) {
	err = s.patiently(ctx, "read rows", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, `
			SELECT order_id, amount_minor, currency, state, coalesce(reason, ''), outcome_unknown, generation, attempts, event_version,
			       coalesce(provider_charge_id, ''), coalesce(lease_until >= now(), false),
			       extract(epoch FROM now() - coalesce(last_sent_at, updated_at))::float8
			FROM charges WHERE order_id = ANY ($1::uuid[])`, uuids(orders))
		if err != nil {
			return err
		}
		found = make(map[uuid.UUID]Row, len(orders))
		var r Row
		var quiet float64
		_, err = pgx.ForEachRow(rows, []any{
			&r.OrderID, &r.Amount.Minor, &r.Amount.Currency, &r.State, &r.Reason, &r.Unknown, &r.Generation, &r.Attempts, &r.Version,
			&r.ProviderChargeID, &r.Leased, &quiet,
		}, func() error {
			r.Quiet = time.Duration(quiet * float64(time.Second))
			found[r.OrderID] = r
			return nil
		})
		return err
	})
	return found, err
}

// ListUnknown is a page of the orders whose outcome was unknown or in review when they were listed, by their ids.
func (s *Store) ListUnknown(ctx context.Context, after uuid.UUID, limit int) (orders []uuid.UUID, err error) {
	err = s.patiently(ctx, "list unknown outcomes", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, `SELECT order_id FROM unknown_outcomes WHERE order_id > $1 ORDER BY order_id LIMIT $2`, after, limit)
		if err != nil {
			return err
		}
		orders, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	return orders, err
}

// UnknownStats are the figures of orders whose outcome is unknown or in review.
type UnknownStats struct {
	Orders int64
	Oldest time.Duration // 0 when there is none
}

// UnknownStats counts. What is listed and has been decided since does not count.
func (s *Store) UnknownStats(ctx context.Context) (st UnknownStats, err error) {
	var oldest float64
	err = s.patiently(ctx, "count unknown outcomes", func(ctx context.Context, db session) error {
		return db.QueryRow(ctx, `
			SELECT count(*), greatest(coalesce(extract(epoch FROM now() - min(u.since)), 0), 0)::float8
			FROM unknown_outcomes u JOIN charges c USING (order_id) WHERE c.state IN ('unknown', 'review')`).Scan(&st.Orders, &oldest)
	})
	st.Oldest = time.Duration(oldest * float64(time.Second))
	return st, err
}

// forgetBatch bounds the rows that one statement locks.
const forgetBatch = 1000

// ForgetKnown takes orders off the list whose outcome is known by now, and returns how many.
//
// The order's row is locked first: a settlement that lists the order again has either changed the row already, and then
// it is seen, or waits and adds the order anew.
func (s *Store) ForgetKnown(ctx context.Context) (n int64, err error) {
	err = s.patiently(ctx, "forget known outcomes", func(ctx context.Context, db session) error {
		tag, err := db.Exec(ctx, `
			WITH known AS (
			    SELECT c.order_id FROM unknown_outcomes u JOIN charges c USING (order_id)
			     WHERE c.state IN ('succeeded', 'declined', 'rejected') OR (c.state = 'retry_wait' AND NOT c.outcome_unknown)
			     LIMIT $1 FOR UPDATE OF c SKIP LOCKED
			)
			DELETE FROM unknown_outcomes u USING known k WHERE u.order_id = k.order_id`, forgetBatch)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}
