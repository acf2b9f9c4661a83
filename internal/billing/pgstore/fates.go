package pgstore

import (
	"context"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// Fate is where a record of the main topic ended, for now, unless it ended as the charge of its order: that stands in the
// order's own row (hazard H18).
type Fate struct {
	Origin  billing.Origin
	OrderID uuid.UUID // zero: the record could not be decoded
	Kind    string    // "duplicate", "waiting", "dead", "dropped", "resolved"; or "replay": no order that arrived (see Balance)
	Reason  failure.Reason
	Step    int64 // how far the message had come, see recordFatesSQL
}

func (f Fate) key() billing.Origin { return f.Origin }

// RecordFate stores the fate in the place of an earlier one. Concurrent callers share a statement. An order that was known
// before stays known: a message that is given up undecoded has none.
func (s *Store) RecordFate(ctx context.Context, f Fate) error {
	_, err := s.fates.do(ctx, f)
	return err
}

// recordFatesSQL does not go back: a process that was cut off or frozen may write that the record waits, long after another one
// has brought it further. What has ended somewhere has, whoever says so.
const recordFatesSQL = `
INSERT INTO record_fates (topic_id, partition, "offset", order_id, fate, reason, step)
SELECT i.topic_id, i.partition, i."offset", nullif(i.order_id, '00000000-0000-0000-0000-000000000000'), i.fate, nullif(i.reason, ''), i.step
FROM unnest($1::uuid[], $2::integer[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::bigint[])
  AS i (topic_id, partition, "offset", order_id, fate, reason, step)
ORDER BY 1, 2, 3
ON CONFLICT (topic_id, partition, "offset") DO UPDATE SET
       order_id = coalesce(excluded.order_id, record_fates.order_id), fate = excluded.fate, reason = excluded.reason,
       step = greatest(excluded.step, record_fates.step), updated_at = now()
 WHERE excluded.fate <> 'waiting' OR excluded.step >= record_fates.step`

func (s *Store) fateBatch(batch []*job[Fate, struct{}], brief bool) {
	isolate(batch, brief, func(batch []*job[Fate, struct{}], brief bool) error {
		n := len(batch)
		topics, partitions, offsets := make(uuids, n), make([]int32, n), make([]int64, n)
		orders, kinds, reasons, steps := make(uuids, n), texts(n), texts(n), make([]int64, n)
		for i, j := range batch {
			f := j.in
			topics[i], partitions[i], offsets[i] = f.Origin.TopicID, f.Origin.Partition, f.Origin.Offset
			orders[i], kinds[i], reasons[i], steps[i] = f.OrderID, f.Kind, string(f.Reason), f.Step
		}
		return s.patiently(context.Background(), "record fates", briefly(brief, func(ctx context.Context, db session) error {
			_, err := db.Exec(ctx, recordFatesSQL, topics, partitions, offsets, orders, kinds, reasons, steps)
			return err
		}))
	})
}

// SentOn reports whether the record has a fate as this order's: nothing is sent to a retry topic without one. A zero order
// is one that cannot be told.
func (s *Store) SentOn(ctx context.Context, o billing.Origin, order uuid.UUID) (known bool, err error) {
	err = s.patiently(ctx, "prove an origin", func(ctx context.Context, db session) error {
		return db.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM record_fates WHERE topic_id = $1 AND partition = $2 AND "offset" = $3 AND fate <> 'replay'
			   AND (order_id = $4 OR $4 = '00000000-0000-0000-0000-000000000000'))`, o.TopicID, o.Partition, o.Offset, order).Scan(&known)
	})
	return known, err
}
