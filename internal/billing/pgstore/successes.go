package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
)

// Success is a charged order.
type Success struct {
	OrderID  uuid.UUID
	ChargeID string
	Amount   billing.Money
	Claims   int // more than one: the order was taken over, or tried again
}

// Successes are the orders of which an attempt ended well within [from, to). They are found by their attempts, which have
// an index by time: an order may be charged long after its row was made.
func (s *Store) Successes(ctx context.Context, from, to time.Time) (found []Success, err error) {
	err = s.patiently(ctx, "list successes", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, `
			SELECT c.order_id, c.provider_charge_id, c.amount_minor, c.currency, c.attempts
			  FROM (SELECT DISTINCT order_id FROM charge_attempts
			         WHERE finished_at >= $1 AND finished_at < $2 AND reason IS NULL AND provider_charge_id IS NOT NULL) a
			  JOIN charges c ON c.order_id = a.order_id AND c.state = 'succeeded'`, from, to)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Success, err error) {
			err = row.Scan(&s.OrderID, &s.ChargeID, &s.Amount.Minor, &s.Amount.Currency, &s.Claims)
			return s, err
		})
		return err
	})
	return found, err
}

// PrepareSuccesses brings the index by time up to date. What it does not cover yet is read as a whole for each span: a
// server whose vacuum is behind would make a long comparison slow. Only the table's owner may; without it nothing is lost.
func (s *Store) PrepareSuccesses(ctx context.Context) {
	_, err := s.pool.Exec(ctx, `SELECT brin_summarize_new_values('charge_attempts_finished_at')`)
	if err != nil {
		s.cfg.Log.Debug("index of attempts not brought up to date", "error", err)
	}
}
