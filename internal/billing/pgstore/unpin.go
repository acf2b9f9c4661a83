package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Why an installation stays pinned.
var (
	ErrNotPinned   = errors.New("nothing is pinned")
	ErrOrdersExist = errors.New("orders have been taken under what is pinned: their idempotency keys follow from it. Set the setting back, or use another database")
	ErrInUse       = errors.New("an instance has used this database within the last 30 s: stop all instances, then try again")
)

// inUseWithin is how long after its last sign an instance counts as running, as in package fleet.
const inUseWithin = 30 * time.Second

// Unpin forgets the installation, so that the next start pins anew. It is for a setting that was wrong at the first start,
// and refuses once an order was taken. trace is written in the same transaction and is told what was pinned, as JSON.
func (s *Store) Unpin(ctx context.Context, trace func(ctx context.Context, tx pgx.Tx, pinned []byte) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// An instance that starts now must not claim between the look and the end of this transaction.
		if _, err := tx.Exec(ctx, `LOCK TABLE charges IN SHARE MODE`); err != nil {
			return fmt.Errorf("unpin: %w", err)
		}
		var orders, inUse bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM charges), EXISTS (SELECT FROM instances WHERE updated_at > now() - $1::interval)`, inUseWithin).Scan(&orders, &inUse)
		switch {
		case err != nil:
			return fmt.Errorf("unpin: %w", err)
		case orders:
			return ErrOrdersExist
		case inUse:
			return ErrInUse
		}
		var pinned []byte
		err = tx.QueryRow(ctx, `DELETE FROM installation RETURNING to_jsonb(installation) - 'only_row'`).Scan(&pinned)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotPinned
		}
		if err != nil {
			return fmt.Errorf("unpin: %w", err)
		}
		return trace(ctx, tx, pinned)
	})
}
