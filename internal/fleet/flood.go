package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/audit"
	"example.com/billing/internal/failure"
)

// ErrNoFlood answers a person who lets dead letters go while none are withheld.
var ErrNoFlood = errors.New("no dead letters are withheld")

// Acceptance is what a person lets go in a flood: so many messages that wait for the reason may die.
type Acceptance struct {
	Code      failure.Reason
	Count     int64
	By        audit.Actor
	Reason    string
	RequestID string
}

// Accept lets dead letters go, with a row in the audit trail. The instances find it within a second. It returns how many
// may still die for the reason.
func (s *Switch) Accept(ctx context.Context, a Acceptance) (remaining int64, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var flood bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM dead_letter_flood)`).Scan(&flood); err != nil {
			return err
		}
		if !flood {
			return ErrNoFlood
		}
		err := tx.QueryRow(ctx, `
			INSERT INTO accepted_dead_letters AS a (reason_code, remaining) VALUES ($1, $2)
			ON CONFLICT (reason_code) DO UPDATE SET remaining = a.remaining + excluded.remaining
			RETURNING remaining`, a.Code, a.Count).Scan(&remaining)
		if err != nil {
			return err
		}
		target := map[string]any{"reason_code": a.Code, "count": a.Count}
		return audit.WriteTo(ctx, tx, audit.Entry{Actor: a.By, Action: "consumption.accept", Reason: a.Reason, Target: target, RequestID: a.RequestID, Outcome: "accepted"})
	})
	if err != nil {
		return 0, fmt.Errorf("accept dead letters: %w", err)
	}
	return remaining, nil
}

func floodThatLasts(ctx context.Context, pool *pgxpool.Pool) (flood bool, err error) {
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM dead_letter_flood)`).Scan(&flood); err != nil {
		return false, fmt.Errorf("read the flood of dead letters: %w", err)
	}
	return flood, nil
}

// diedLately counts the dead letters of the last minute that are listed, up to a hundred.
func diedLately(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
	err = pool.QueryRow(ctx, `
		SELECT count(*) FROM (SELECT dead_at FROM dead_letters ORDER BY id DESC LIMIT 100) AS l WHERE dead_at > now() - interval '1 minute'`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the latest dead letters: %w", err)
	}
	return n, nil
}

// share tells the line how many instances share the limit of dead letters: each stops at its part of it, so that no verdict
// has to ask the others first.
func (i *Instance) share(ctx context.Context) error {
	others, err := i.peers.others(ctx)
	if err == nil {
		i.line.Among(others + 1)
	}
	return err
}

// followFlood keeps the flood in the database, where a restarted instance finds it, and takes what a person has let go.
func (i *Instance) followFlood(ctx context.Context) error {
	on, waiting := i.line.Flood()
	switch {
	case on:
		return i.tellFlood(ctx, waiting)
	case i.flooded:
		return i.endFlood(ctx)
	}
	return nil
}

// floodStale is how old the row of a flood must be before an instance whose own flood is over takes it away: those that still
// withhold renew it every second.
const floodStale = 3 * time.Second

// endFlood takes the flood away, with what was let go for it, unless another instance is still in it.
func (i *Instance) endFlood(ctx context.Context) error {
	err := i.pool.QueryRow(ctx, `
		WITH over AS (DELETE FROM dead_letter_flood WHERE seen_at < now() - $1::interval RETURNING 1),
		     unused AS (DELETE FROM accepted_dead_letters WHERE EXISTS (SELECT FROM over))
		SELECT EXISTS (SELECT FROM dead_letter_flood) AND NOT EXISTS (SELECT FROM over)`, floodStale).Scan(&i.flooded)
	if err != nil {
		return fmt.Errorf("end the flood of dead letters: %w", err)
	}
	return nil
}

func (i *Instance) tellFlood(ctx context.Context, waiting map[failure.Reason]int) error {
	_, err := i.pool.Exec(ctx, `INSERT INTO dead_letter_flood DEFAULT VALUES ON CONFLICT (only_row) DO UPDATE SET seen_at = now()`)
	if err != nil {
		return fmt.Errorf("tell of the flood of dead letters: %w", err)
	}
	i.flooded = true
	for r, n := range i.line.Unaccept() {
		if err := giveBack(ctx, i.pool, r, n); err != nil {
			i.line.Accept(r, n)
			return err
		}
	}
	if held, _ := i.line.Held(); held != "" && held != failure.DeadLetterFlood {
		return nil // nothing is handled here now, so that another instance may have those messages
	}
	for r, n := range waiting {
		taken, err := takeAccepted(ctx, i.pool, r, n)
		if err != nil {
			return err
		}
		if taken > 0 {
			i.cfg.Log.Warn("dead letters let go by a person", "reason", r, "count", taken)
			i.line.Accept(r, taken)
		}
	}
	return nil
}

// giveBack returns what this instance took and does not need: the partition went to another instance meanwhile.
func giveBack(ctx context.Context, pool *pgxpool.Pool, r failure.Reason, n int) error {
	_, err := pool.Exec(ctx, `UPDATE accepted_dead_letters SET remaining = remaining + $2 WHERE reason_code = $1`, r, n)
	if err != nil {
		return fmt.Errorf("give accepted dead letters back: %w", err)
	}
	return nil
}

// takeAccepted takes at most n of what a person has let go for the reason. What an instance takes and does not use, since it
// ended, is lost: the person lets go again.
func takeAccepted(ctx context.Context, pool *pgxpool.Pool, r failure.Reason, n int) (taken int, err error) {
	err = pool.QueryRow(ctx, `
		WITH share AS (SELECT least(remaining, $2) AS n FROM accepted_dead_letters WHERE reason_code = $1 AND remaining > 0 FOR UPDATE)
		UPDATE accepted_dead_letters SET remaining = remaining - share.n FROM share WHERE reason_code = $1
		RETURNING share.n`, r, n).Scan(&taken)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("take accepted dead letters: %w", err)
	}
	return taken, nil
}
