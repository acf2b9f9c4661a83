package deadletter

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/retry"
)

// takenLetter is a letter that this replay, and no other, works on until its lease ends.
type takenLetter struct {
	id           int64
	place        Place
	replayID     uuid.UUID
	class        failure.Class
	orderID      *uuid.UUID
	originOffset *int64
	fresh        bool // it was open; else a replay that stopped half-way is taken up again
}

func idsOf(taken []takenLetter) []int64 {
	ids := make([]int64, len(taken))
	for i, t := range taken {
		ids[i] = t.id
	}
	return ids
}

// matches reports whether the record is the one that was listed, with its body.
func (t takenLetter) matches(d retry.DeadLetter) bool {
	if d.Parked != uuid.Nil && d.Message.Value == nil {
		return false
	}
	if t.originOffset == nil {
		return d.OriginTopic == ""
	}
	return d.OriginTopic != "" && d.OriginOffset == *t.originOffset
}

// take compares and sets: of several replays one gets each letter. In the same transaction a rejected order is opened again
// and the fate of the record moves to waiting. Not later: the record may be charged before this process learns that it was
// published, and that fate must not be overwritten (hazard H18).
func (r *Replayer) take(ctx context.Context, req Request, ids []int64, target string) ([]takenLetter, error) {
	var taken []takenLetter
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			WITH picked AS (
				SELECT id, state FROM dead_letters
				WHERE id = ANY($1) AND duplicate_of IS NULL AND (state = 'open' OR state = 'replaying' AND (lease_until < now() OR replay_run = $4))
				ORDER BY id FOR UPDATE)
			UPDATE dead_letters d SET state = 'replaying', replay_id = coalesce(d.replay_id, gen_random_uuid()), replay_target = $2, lease_until = now() + $3,
				replay_run = $4, age_lifted = d.age_lifted OR $5
			FROM picked WHERE d.id = picked.id
			RETURNING d.id, d.partition, d."offset", d.replay_id, d.class, d.order_id, d.origin_offset, picked.state = 'open'`,
			ids, target, r.cfg.Lease, req.Run, req.LiftAge)
		if err != nil {
			return err
		}
		taken, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t takenLetter, err error) {
			err = row.Scan(&t.id, &t.place.Partition, &t.place.Offset, &t.replayID, &t.class, &t.orderID, &t.originOffset, &t.fresh)
			return t, err
		})
		if err != nil {
			return err
		}
		return r.openOrders(ctx, tx, taken)
	})
	if err != nil {
		return nil, fmt.Errorf("take %d letters: %w", len(ids), err)
	}
	slices.SortFunc(taken, func(a, b takenLetter) int { return int(a.id - b.id) })
	return taken, nil
}

// openOrders does for the letters that were open what a replay changes beside them. One that is taken up again had it done
// the first time; its order may have been refused anew since.
func (r *Replayer) openOrders(ctx context.Context, tx pgx.Tx, taken []takenLetter) error {
	var fresh []int64
	var rejected []uuid.UUID
	for _, t := range taken {
		if !t.fresh {
			continue
		}
		fresh = append(fresh, t.id)
		if t.class == failure.ClassRejected && t.orderID != nil {
			rejected = append(rejected, *t.orderID)
		}
	}
	if err := r.reopen(ctx, tx, rejected); err != nil {
		return err
	}
	return moveFates(ctx, tx, fresh, "dead", "waiting")
}

// reopen gives rejected orders a new generation with a key of its own: the provider refused the old one for good, and no
// money moved under it (hazard H4). Orders in any other state are left as they are.
func (r *Replayer) reopen(ctx context.Context, tx pgx.Tx, orders []uuid.UUID) error {
	if len(orders) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT order_id, generation, provider_account FROM charges
		WHERE order_id = ANY($1) AND state = 'rejected' AND NOT outcome_unknown ORDER BY order_id FOR UPDATE`, orders)
	if err != nil {
		return err
	}
	var ids, keys []uuid.UUID
	var id uuid.UUID
	var generation int
	var account string
	_, err = pgx.ForEachRow(rows, []any{&id, &generation, &account}, func() error {
		ids, keys = append(ids, id), append(keys, billing.IdempotencyKey(r.cfg.Environment, account, id, generation+1))
		return nil
	})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE charges c SET state = 'retry_wait', generation = c.generation + 1, idempotency_key = n.key, reason = NULL, outcome_unknown = false,
			first_sent_at = NULL, last_sent_at = NULL, previous_sent_at = NULL, finalized_at = NULL, updated_at = now()
		FROM unnest($1::uuid[], $2::uuid[]) AS n (order_id, key) WHERE c.order_id = n.order_id`, ids, keys)
	return err
}

// moveFates moves the fate of the letters' records, and only from the one that it must be in.
func moveFates(ctx context.Context, tx pgx.Tx, ids []int64, from, to string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO record_fates (topic_id, partition, "offset", order_id, fate, reason)
		SELECT DISTINCT ON (origin_topic_id, origin_partition, origin_offset)
			origin_topic_id, origin_partition, origin_offset, order_id, $3::text, reason
		FROM dead_letters WHERE id = ANY($1) AND origin_topic_id IS NOT NULL
		ORDER BY origin_topic_id, origin_partition, origin_offset
		ON CONFLICT (topic_id, partition, "offset") DO UPDATE SET fate = excluded.fate, reason = excluded.reason, updated_at = now()
		WHERE record_fates.fate = $2`, ids, from, to)
	if err != nil {
		return fmt.Errorf("fates of %d records: %w", len(ids), err)
	}
	return nil
}

// finish marks what the broker acknowledged. What it did not may be there all the same: those letters stay taken, and the
// next replay sends them under the same id at once. Those whose record is gone were never sent and are open again. All this
// is written also when the caller has gone away.
func (r *Replayer) finish(ctx context.Context, acked, unsure, gone []int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Lease/4)
	defer cancel()
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE dead_letters SET state = 'replayed', lease_until = NULL, finished_at = now() WHERE id = ANY($1) AND state = 'replaying'`, acked); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE dead_letters SET lease_until = now() WHERE id = ANY($1) AND state = 'replaying'`, unsure); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE dead_letters SET state = 'open', lease_until = NULL WHERE id = ANY($1) AND state = 'replaying'`, gone); err != nil {
			return err
		}
		return moveFates(ctx, tx, gone, "waiting", "dead")
	})
	if err != nil {
		return fmt.Errorf("mark %d replayed letters, they are taken up again under the same id: %w", len(acked), err)
	}
	return nil
}
