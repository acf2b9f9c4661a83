package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/platform/postgres"
)

// lease says who is the one reader of the dead-letter topic. Time is the database's.
type lease struct {
	pool  *pgxpool.Pool
	name  string
	owner uuid.UUID
	term  time.Duration
}

// hold takes the lease or renews it; false: another one has it.
func (l lease) hold(ctx context.Context) (bool, error) {
	return postgres.TakeLease(ctx, l.pool, l.name, l.owner, l.term)
}

// confirm proves within a transaction that the lease is still ours, and keeps it so until the transaction ends.
func (l lease) confirm(ctx context.Context, tx pgx.Tx) error {
	var held bool
	err := tx.QueryRow(ctx, `SELECT owner = $2 AND expires_at > now() FROM leases WHERE name = $1 FOR UPDATE`, l.name, l.owner).Scan(&held)
	if err != nil {
		return fmt.Errorf("lease %s: %w", l.name, err)
	}
	if !held {
		return errLeaseLost
	}
	return nil
}

// release lets the next one begin at once.
func (l lease) release(ctx context.Context) error {
	return postgres.GiveLeaseBack(ctx, l.pool, l.name, l.owner)
}
