package pgstore

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
)

// Moved tells whether money may have moved for the order, whoever asks and whatever has become of the message (hazard H31).
func (s *Store) Moved(ctx context.Context, order uuid.UUID) (moved billing.Moved, err error) {
	err = s.patiently(ctx, "look whether money moved", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, `SELECT state = 'succeeded', outcome_unknown OR state IN ('in_flight', 'unknown', 'review') FROM charges WHERE order_id = $1`, order)
		if err != nil {
			return err
		}
		moved = billing.NoMoney
		var charged, maybe bool
		_, err = pgx.ForEachRow(rows, []any{&charged, &maybe}, func() error {
			switch {
			case charged:
				moved = billing.Certainly
			case maybe:
				moved = billing.MayBe
			}
			return nil
		})
		return err
	})
	return moved, err
}
