package reconcile

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/audit"
)

const batchOfLetters = 200

// resolveLetters closes the open letters whose order is charged by now, whoever found that out: those of class unknown, and
// those of messages that may have moved money before our code failed or the process died. What a
// replay has taken is left to it. The letters of a batch, the fates of their records and the trail are one transaction.
//
// It goes by what is open rather than by what this run has found: a letter may be listed only after its order was resolved.
func (r *Reconciler) resolveLetters(ctx context.Context) (resolved int, err error) {
	for {
		n := 0
		err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			letters, err := takeLetters(ctx, tx)
			if err != nil {
				return err
			}
			n = len(letters)
			return closeBooks(ctx, tx, letters)
		})
		if err != nil {
			return resolved, fmt.Errorf("resolve dead letters: %w", err)
		}
		if resolved += n; n < batchOfLetters {
			return resolved, nil
		}
	}
}

type letter struct {
	ID        int64     `json:"-"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	OrderID   uuid.UUID `json:"order_id"`
	ChargeID  string    `json:"provider_charge_id"`
}

func takeLetters(ctx context.Context, tx pgx.Tx) ([]letter, error) {
	rows, err := tx.Query(ctx, `
		WITH picked AS (
			SELECT d.id, c.provider_charge_id FROM dead_letters d JOIN charges c ON c.order_id = d.order_id AND c.state = 'succeeded'
			WHERE d.state = 'open' AND d.class IN ('unknown', 'bug', 'poison') AND d.duplicate_of IS NULL
			ORDER BY d.id LIMIT $1 FOR UPDATE OF d SKIP LOCKED)
		UPDATE dead_letters d SET state = 'resolved', finished_at = now() FROM picked WHERE d.id = picked.id
		RETURNING d.id, d.topic, d.partition, d."offset", d.order_id, picked.provider_charge_id`, batchOfLetters)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[letter])
}

// closeBooks moves the fates along with the letters, and leaves a trace of each. The record that the order was charged for
// counts as charged all the same: there the order's own row decides (hazard H18).
func closeBooks(ctx context.Context, tx pgx.Tx, letters []letter) error {
	ids := make([]int64, len(letters))
	for i, l := range letters {
		ids[i] = l.ID
		err := audit.WriteTo(ctx, tx, audit.Entry{
			Actor: audit.Actor{Name: "system", Role: "system"}, Action: "dlq.resolve", Reason: "the provider lists the charge", Target: l, Outcome: "done",
		})
		if err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `
		UPDATE record_fates f SET fate = 'resolved', updated_at = now() FROM dead_letters d
		WHERE d.id = ANY ($1) AND f.fate = 'dead'
		  AND f.topic_id = d.origin_topic_id AND f.partition = d.origin_partition AND f."offset" = d.origin_offset`, ids)
	return err
}
