package pgstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// Finding is what a look-up at the provider proved about an order whose outcome was unknown.
type Finding struct {
	State    billing.State // Succeeded; RetryWait: no money moved; or Review
	ChargeID string        // the charge; in review the one that is too much or wrong
	Anomaly  string        // in review
	Detail   string        // for people
	Started  time.Time     // of the look-up
}

// Resolve ends an unknown outcome, with its attempt and event in one transaction, if the row still is as it was read and
// nobody works on it. It reports whether it did.
func (s *Store) Resolve(ctx context.Context, row Row, f Finding) (done bool, err error) {
	look := uuid.New() // of the attempt: by it a repetition after a lost answer finds its own trace
	err = s.patiently(ctx, "resolve unknown outcome", func(ctx context.Context, db session) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			same, before, err := compareRow(ctx, tx, row, look)
			if done = before || same; err != nil || before || !same {
				return err
			}
			return tx.SendBatch(ctx, s.findingWrites(row, f, look)).Close()
		})
	})
	if done && err == nil && f.State == billing.Succeeded {
		s.cfg.EventWritten()
	}
	return done && err == nil, err
}

// compareRow locks the row. Every claim raises the attempts, so that an equal count means that nobody has touched the order
// since it was read.
func compareRow(ctx context.Context, tx pgx.Tx, row Row, look uuid.UUID) (same, before bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT state = $2 AND generation = $3 AND attempts = $4 AND state IN ('unknown', 'in_flight') AND coalesce(lease_until < now(), true)
		FROM charges WHERE order_id = $1 FOR UPDATE`, row.OrderID, string(row.State), row.Generation, row.Attempts).Scan(&same)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM charge_attempts WHERE order_id = $1 AND claim_id = $2)`, row.OrderID, look).Scan(&before)
	return same, before, err
}

func (s *Store) findingWrites(row Row, f Finding, look uuid.UUID) *pgx.Batch {
	b := &pgx.Batch{}
	now := s.cfg.Clock()
	reason := cmp.Or(row.Reason, failure.Unclassified) // an attempt without one would be a success
	switch f.State {
	case billing.Succeeded:
		reason = ""
		e := succeededEvent(row, f.ChargeID, now)
		b.Queue(`INSERT INTO outbox (event_id, event_type, order_id, payload) VALUES ($1, $2, $3, $4)`, e.ID, e.Type, e.OrderID, e.Payload())
	case billing.Review:
		reason = failure.ProviderBadAnswer
		queueAnomaly(b, row.OrderID, f.Anomaly, f.ChargeID, f.Detail)
	}
	b.Queue(`
		UPDATE charges SET state = $2, reason = nullif($3, ''), outcome_unknown = ($2 = 'review'), claim_id = NULL, lease_until = NULL,
		       provider_charge_id = CASE WHEN $2 = 'succeeded' THEN $4 ELSE provider_charge_id END,
		       event_version = event_version + ($2 = 'succeeded')::integer,
		       finalized_at = CASE WHEN $2 = 'succeeded' THEN now() END, updated_at = now()
		 WHERE order_id = $1`, row.OrderID, string(f.State), string(reason), clean(f.ChargeID))
	b.Queue(`
		INSERT INTO charge_attempts (order_id, generation, attempt, claim_id, kind, started_at, finished_at, reason, provider_charge_id, detail)
		VALUES ($1, $2, $3, $4, 'lookup', $5, $6, nullif($7, ''), nullif($8, ''), $9)`,
		row.OrderID, row.Generation, row.Attempts, look, f.Started, now, string(reason), clean(f.ChargeID), clean(f.Detail))
	if f.State == billing.Review {
		b.Queue(`INSERT INTO unknown_outcomes (order_id) VALUES ($1) ON CONFLICT DO NOTHING`, row.OrderID)
	} else {
		b.Queue(`DELETE FROM unknown_outcomes WHERE order_id = $1`, row.OrderID)
	}
	return b
}

// succeededEvent is the one that the charge's own settlement would have told.
func succeededEvent(row Row, chargeID string, at time.Time) *billing.Event {
	return billing.Event{
		Type: billing.EventSucceeded, OccurredAt: at.UTC().Truncate(time.Millisecond), OrderID: row.OrderID, Generation: row.Generation,
		Amount: row.Amount.Decimal(), Currency: row.Amount.Currency, ProviderChargeID: chargeID,
	}.WithVersion(row.Version + 1)
}
