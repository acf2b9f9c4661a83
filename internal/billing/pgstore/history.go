package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// History is all that is known of an order: its row and what every claim of it did.
type History struct {
	OrderID          uuid.UUID
	CustomerID       uuid.UUID
	EventID          uuid.UUID
	Amount           billing.Money
	Generation       int
	State            billing.State
	Reason           failure.Reason
	Unknown          bool // an attempt of this generation may have moved money
	Attempts         int
	Account          string
	ProviderChargeID string
	FirstSentAt      *time.Time
	LastSentAt       *time.Time
	LeaseUntil       *time.Time // set while a claim works on it
	Origin           billing.Origin
	CreatedAt        time.Time
	UpdatedAt        time.Time
	FinalizedAt      *time.Time
	Past             []PastAttempt // oldest first
}

// PastAttempt is what one claim did.
type PastAttempt struct {
	Generation int
	Number     int
	billing.Attempt
	ProviderChargeID string
}

// Order reads the history of an order; nil when nothing is known of it.
func (s *Store) Order(ctx context.Context, id uuid.UUID) (h *History, err error) {
	err = s.patiently(ctx, "read order", func(ctx context.Context, db session) error {
		if h, err = readOrder(ctx, db, id); err != nil || h == nil {
			return err
		}
		h.Past, err = readAttempts(ctx, db, id)
		return err
	})
	return h, err
}

func readOrder(ctx context.Context, db session, id uuid.UUID) (h *History, err error) {
	rows, err := db.Query(ctx, `
		SELECT order_id, customer_id, event_id, amount_minor, currency, generation, state, coalesce(reason, ''), outcome_unknown, attempts,
		       provider_account, coalesce(provider_charge_id, ''), first_sent_at, last_sent_at, lease_until,
		       origin_topic_id, origin_partition, origin_offset, created_at, updated_at, finalized_at
		FROM charges WHERE order_id = $1`, id)
	if err != nil {
		return nil, err
	}
	var r History
	_, err = pgx.ForEachRow(rows, []any{
		&r.OrderID, &r.CustomerID, &r.EventID, &r.Amount.Minor, &r.Amount.Currency, &r.Generation, &r.State, &r.Reason, &r.Unknown, &r.Attempts,
		&r.Account, &r.ProviderChargeID, &r.FirstSentAt, &r.LastSentAt, &r.LeaseUntil,
		&r.Origin.TopicID, &r.Origin.Partition, &r.Origin.Offset, &r.CreatedAt, &r.UpdatedAt, &r.FinalizedAt,
	}, func() error { h = &r; return nil })
	return h, err
}

func readAttempts(ctx context.Context, db session, id uuid.UUID) ([]PastAttempt, error) {
	rows, err := db.Query(ctx, `
		SELECT generation, attempt, kind, started_at, finished_at, coalesce(reason, ''), coalesce(http_status, 0), coalesce(provider_request_id, ''),
		       coalesce(provider_code, ''), replayed, coalesce(detail, ''), coalesce(provider_charge_id, '')
		FROM charge_attempts WHERE order_id = $1 ORDER BY generation, attempt, finished_at`, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a PastAttempt, err error) {
		err = row.Scan(&a.Generation, &a.Number, &a.Kind, &a.StartedAt, &a.FinishedAt, &a.Reason, &a.HTTPStatus, &a.ProviderRequestID,
			&a.ProviderCode, &a.Replayed, &a.Detail, &a.ProviderChargeID)
		return a, err
	})
}
