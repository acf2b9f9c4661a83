package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/audit"
)

// Pause is what an operator has said when the switch was turned on.
type Pause struct {
	By     string
	Reason string
	Since  time.Time
}

// Switch is the operator's stop switch, one for all instances. pgstore's claim statement checks the same row: from the
// moment Turn returns no claim begins anywhere. What was claimed before is charged and settled as usual.
type Switch struct{ pool *pgxpool.Pool }

// NewSwitch makes the switch of a database.
func NewSwitch(pool *pgxpool.Pool) *Switch { return &Switch{pool} }

// Order is what an operator asks for.
type Order struct {
	On        bool
	By        audit.Actor
	Reason    string
	RequestID string
}

// Turn obeys, with a row in the audit trail. Turned on twice it stays the first one's pause. It returns the pause that is
// in force then; nil: none.
func (s *Switch) Turn(ctx context.Context, o Order) (now *Pause, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		outcome, err := turn(ctx, tx, o)
		if err != nil {
			return err
		}
		action := "consumption.resume"
		if o.On {
			action = "consumption.pause"
		}
		err = audit.WriteTo(ctx, tx, audit.Entry{Actor: o.By, Action: action, Reason: o.Reason, Target: struct{}{}, RequestID: o.RequestID, Outcome: outcome})
		if err != nil {
			return err
		}
		now, err = paused(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("turn the operator's switch: %w", err)
	}
	return now, nil
}

func turn(ctx context.Context, tx pgx.Tx, o Order) (outcome string, err error) {
	if !o.On {
		tag, err := tx.Exec(ctx, `DELETE FROM operator_pause`)
		if tag.RowsAffected() == 0 {
			return "was not paused", err
		}
		return "resumed", err
	}
	tag, err := tx.Exec(ctx, `INSERT INTO operator_pause (actor, reason) VALUES ($1, $2) ON CONFLICT (only_row) DO NOTHING`, o.By.Name, o.Reason)
	if tag.RowsAffected() == 0 {
		return "was paused", err
	}
	return "paused", err
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// paused reads the switch; nil: it is off.
func paused(ctx context.Context, db querier) (*Pause, error) {
	var p Pause
	err := db.QueryRow(ctx, `SELECT actor, reason, since FROM operator_pause`).Scan(&p.By, &p.Reason, &p.Since)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // off is no error
	}
	if err != nil {
		return nil, fmt.Errorf("read the operator's switch: %w", err)
	}
	return &p, nil
}
