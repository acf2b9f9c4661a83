// Package audit keeps who did what, and why. Rows are only ever added: the database refuses to change or remove one.
// It never stores payloads, tokens or keys.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Actor is who asks for something.
type Actor struct {
	Name string
	Role string
}

// Entry is one row of the trail.
type Entry struct {
	ID        int64
	At        time.Time
	Actor     Actor
	Action    string
	Reason    string
	Target    any // anything that becomes JSON
	RequestID string
	Outcome   string
}

// Log writes and reads the trail.
type Log struct{ pool *pgxpool.Pool }

// New makes a Log on the pool.
func New(pool *pgxpool.Pool) *Log { return &Log{pool: pool} }

// Execer is a pool, a connection or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Write adds a row. ID and time are the database's.
func (l *Log) Write(ctx context.Context, e Entry) error { return WriteTo(ctx, l.pool, e) }

// WriteTo adds a row within the caller's transaction: the action and its trace stand or fall together.
func WriteTo(ctx context.Context, db Execer, e Entry) error {
	target, err := json.Marshal(e.Target)
	if err != nil {
		return fmt.Errorf("audit %s: encode target: %w", e.Action, err)
	}
	_, err = db.Exec(ctx, `INSERT INTO audit_log (actor, role, action, reason, target, request_id, outcome) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		e.Actor.Name, e.Actor.Role, e.Action, e.Reason, string(target), e.RequestID, e.Outcome)
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	return nil
}

// Query picks rows. Zero fields do not filter.
type Query struct {
	Actor    string
	From, To time.Time
	Before   int64 // rows with a lower id
	Limit    int
}

// List returns the newest rows first.
func (l *Log) List(ctx context.Context, q Query) ([]Entry, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT id, at, actor, role, action, reason, target, request_id, outcome FROM audit_log
		WHERE ($1 = '' OR actor = $1) AND ($2::timestamptz IS NULL OR at >= $2) AND ($3::timestamptz IS NULL OR at < $3)
		  AND ($4 = 0 OR id < $4)
		ORDER BY id DESC LIMIT $5`, q.Actor, nullable(q.From), nullable(q.To), q.Before, q.Limit)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Entry, error) {
		var e Entry
		var target []byte
		err := row.Scan(&e.ID, &e.At, &e.Actor.Name, &e.Actor.Role, &e.Action, &e.Reason, &target, &e.RequestID, &e.Outcome)
		e.Target = json.RawMessage(target)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return entries, nil
}

func nullable(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
