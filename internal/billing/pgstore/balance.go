package pgstore

import (
	"context"

	"github.com/google/uuid"
)

// Balance is where the records of the main topic ended: taken = the sum of all fates, or something is wrong (hazard H18).
type Balance struct {
	Taken     int64
	Charged   int64
	Duplicate int64
	Waiting   int64
	Dead      int64
	Dropped   int64
	Resolved  int64
	// Difference is Taken less the rest. Positive: records without a fate. Negative: records with two.
	Difference int64
}

// balanceSQL is one statement, so one snapshot. A record is charged where its order's row says so; its row of fates, if it
// has one, is then from before: it waited in a tier. What lies at or above next_offset is still in flight and not counted.
const balanceSQL = `
WITH taken AS (
    SELECT partition, next_offset, records FROM intake WHERE topic_id = $1
), charged AS (
    SELECT count(*) AS n FROM charges c JOIN taken t ON t.partition = c.origin_partition AND c.origin_offset < t.next_offset
     WHERE c.origin_topic_id = $1 AND c.state = 'succeeded'
), fates AS (
    SELECT f.fate FROM record_fates f JOIN taken t ON t.partition = f.partition AND f."offset" < t.next_offset
     WHERE f.topic_id = $1 AND NOT EXISTS (
           SELECT FROM charges c WHERE c.order_id = f.order_id AND c.state = 'succeeded' AND c.origin_topic_id = f.topic_id
              AND c.origin_partition = f.partition AND c.origin_offset = f."offset")
)
SELECT (SELECT coalesce(sum(records), 0)::bigint FROM taken), (SELECT n FROM charged),
       count(*) FILTER (WHERE fate = 'duplicate'), count(*) FILTER (WHERE fate = 'waiting'), count(*) FILTER (WHERE fate = 'dead'),
       count(*) FILTER (WHERE fate = 'dropped'), count(*) FILTER (WHERE fate = 'resolved')
FROM fates`

// Balance adds up the topic's records. It reads all of its charges, so it is for a minute's rhythm, not a second's.
func (s *Store) Balance(ctx context.Context, topicID uuid.UUID) (b Balance, err error) {
	err = s.patiently(ctx, "balance", func(ctx context.Context, db session) error {
		return db.QueryRow(ctx, balanceSQL, topicID).Scan(&b.Taken, &b.Charged, &b.Duplicate, &b.Waiting, &b.Dead, &b.Dropped, &b.Resolved)
	})
	b.Difference = b.Taken - b.Charged - b.Duplicate - b.Waiting - b.Dead - b.Dropped - b.Resolved
	return b, err
}
