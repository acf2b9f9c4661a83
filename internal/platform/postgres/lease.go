package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// Execer is a pool, a connection or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// TakeLease takes a lease by its name, or renews it, for what only one instance may do. It reports false while another has
// it. The term is by the database's clock.
func TakeLease(ctx context.Context, db Execer, name string, owner uuid.UUID, term time.Duration) (ours bool, err error) {
	tag, err := db.Exec(ctx, `
		INSERT INTO leases AS l (name, owner, expires_at) VALUES ($1, $2, now() + $3::interval)
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
		 WHERE l.owner = excluded.owner OR l.expires_at < now()`, name, owner, term)
	if err != nil {
		return false, fmt.Errorf("lease %s: %w", name, err)
	}
	return tag.RowsAffected() == 1, nil
}

// GiveLeaseBack lets the next one take it at once. Without it the lease ends by itself.
func GiveLeaseBack(ctx context.Context, db Execer, name string, owner uuid.UUID) error {
	if _, err := db.Exec(ctx, `DELETE FROM leases WHERE name = $1 AND owner = $2`, name, owner); err != nil {
		return fmt.Errorf("give lease %s back: %w", name, err)
	}
	return nil
}
