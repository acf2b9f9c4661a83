package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
	tag, err := l.pool.Exec(ctx, `
		INSERT INTO leases (name, owner, expires_at) VALUES ($1, $2, now() + $3)
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
		WHERE leases.owner = excluded.owner OR leases.expires_at < now()`, l.name, l.owner, l.term)
	if err != nil {
		return false, fmt.Errorf("lease %s: %w", l.name, err)
	}
	return tag.RowsAffected() == 1, nil
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
	_, err := l.pool.Exec(ctx, `DELETE FROM leases WHERE name = $1 AND owner = $2`, l.name, l.owner)
	return err
}
