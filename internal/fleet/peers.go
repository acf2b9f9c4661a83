package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/failure"
)

// peers is the table in which each instance says how it fares. Instants cross it as ages, so that only the database's clock
// counts.
type peers struct {
	pool *pgxpool.Pool
	own  uuid.UUID
}

const (
	stale  = 30 * time.Second // a row that was not renewed for so long is of an instance that is gone
	remove = time.Hour        // and is removed after this
)

// tell writes this instance's row: why it is held and for how long, and how long ago the provider last answered it; nil:
// never.
func (p peers) tell(ctx context.Context, held failure.Reason, heldFor, answeredAgo *time.Duration) error {
	_, err := p.pool.Exec(ctx, `
		WITH gone AS (DELETE FROM instances WHERE id <> $1 AND updated_at < now() - $5::interval)
		INSERT INTO instances (id, held, held_since, answered_at) VALUES ($1, nullif($2, ''), now() - $3::interval, now() - $4::interval)
		ON CONFLICT (id) DO UPDATE SET held = excluded.held, held_since = excluded.held_since, answered_at = excluded.answered_at, updated_at = now()`,
		p.own, string(held), heldFor, answeredAgo, remove)
	if err != nil {
		return fmt.Errorf("tell the other instances: %w", err)
	}
	return nil
}

// anyWell reports whether another instance lives, is not held, and was answered within that time.
func (p peers) anyWell(ctx context.Context, within time.Duration) (well bool, err error) {
	err = p.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM instances WHERE id <> $1 AND held IS NULL AND updated_at > now() - $2::interval AND answered_at > now() - $3::interval)`,
		p.own, stale, within).Scan(&well)
	if err != nil {
		return false, fmt.Errorf("ask how the other instances fare: %w", err)
	}
	return well, nil
}

// others is how many other instances live.
func (p peers) others(ctx context.Context) (n int, err error) {
	err = p.pool.QueryRow(ctx, `SELECT count(*) FROM instances WHERE id <> $1 AND updated_at > now() - $2::interval`, p.own, stale).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the other instances: %w", err)
	}
	return n, nil
}

// lasts is how long a hold is believed to last that nobody tells of any more.
const lasts = 10 * time.Minute

// holdThatLasts is why another instance is held, or the one before this process was when it ended; empty when the provider
// has answered anybody since, or nobody was held lately.
func (p peers) holdThatLasts(ctx context.Context) (held failure.Reason, err error) {
	err = p.pool.QueryRow(ctx, `
		SELECT i.held FROM instances i WHERE i.id <> $1 AND i.held IS NOT NULL AND i.updated_at > now() - $2::interval
		   AND NOT EXISTS (SELECT FROM instances o WHERE o.answered_at > i.updated_at)
		 ORDER BY i.updated_at DESC LIMIT 1`, p.own, lasts).Scan(&held)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask what holds the other instances: %w", err)
	}
	return held, nil
}

// leave removes the row, so that nobody counts on this instance any more. One that is held leaves its row behind: the process
// that follows starts held.
func (p peers) leave(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, `DELETE FROM instances WHERE id = $1 AND held IS NULL`, p.own)
	return err
}
