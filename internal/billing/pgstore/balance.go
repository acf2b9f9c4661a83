package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Balance is where the records of the main topic ended: taken = the sum of all fates, or something is wrong (hazard H18).
type Balance struct {
	Taken     int64 `json:"taken"` // orders that arrived: replays, which stand for another record, are not among them
	Charged   int64 `json:"charged"`
	Duplicate int64 `json:"duplicate"`
	Waiting   int64 `json:"waiting"`
	Dead      int64 `json:"dead"`
	Dropped   int64 `json:"dropped"`
	Resolved  int64 `json:"resolved"`
	// Difference is Taken less the rest. Positive: records without a fate. Negative: records with two.
	Difference int64 `json:"difference"`
}

// balanceSQL counts for each partition. Parallel workers share the one walk through the charges, which is nearly all of
// its cost.
//
// A record is charged where an order's row names it; a row of fates that it has as well is then from before: it waited in
// a tier. The two meet in the record, not in the order: a message may be given up before its order is known. What lies at
// or above next_offset is still in flight and not counted, nor what came from below the first offset ever taken.
//
// Two orders that were charged for one record with an old fate look even here; CheckBooks tells. To count them apart the
// database would have to sort all charges.
const balanceSQL = `
SELECT partition, 'taken' AS fate, NULL AS stale, records AS n FROM intake WHERE topic_id = $1
UNION ALL
SELECT f.partition, f.fate, NULL, count(*)
  FROM record_fates f JOIN intake i ON i.topic_id = $1 AND i.partition = f.partition AND f."offset" >= i.first_offset AND f."offset" < i.next_offset
 WHERE f.topic_id = $1 GROUP BY f.partition, f.fate
UNION ALL
SELECT c.origin_partition, 'charged', f.fate, count(*)
  FROM charges c JOIN intake i ON i.topic_id = $1 AND i.partition = c.origin_partition AND c.origin_offset >= i.first_offset AND c.origin_offset < i.next_offset
  LEFT JOIN record_fates f ON f.topic_id = $1 AND f.partition = c.origin_partition AND f."offset" = c.origin_offset
 WHERE c.origin_topic_id = $1 AND c.state = 'succeeded' GROUP BY c.origin_partition, f.fate`

// Balance adds up the topic's records.
func (s *Store) Balance(ctx context.Context, topicID uuid.UUID) (sum Balance, err error) {
	balances, err := s.Balances(ctx, topicID)
	return Sum(balances), err
}

// Balances adds up the records of each partition. It reads all charges, so it takes as long as that takes: whoever calls it
// in rhythm leaves long pauses.
func (s *Store) Balances(ctx context.Context, topicID uuid.UUID) (balances map[int32]Balance, err error) {
	err = s.unhurried(ctx, "balance", func(ctx context.Context, tx pgx.Tx) error {
		balances, err = readBalances(ctx, tx, topicID)
		return err
	})
	return balances, err
}

func readBalances(ctx context.Context, tx pgx.Tx, topicID uuid.UUID) (map[int32]Balance, error) {
	rows, err := tx.Query(ctx, balanceSQL, topicID)
	if err != nil {
		return nil, err
	}
	balances := map[int32]Balance{}
	var partition int32
	var fate string
	var stale *string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&partition, &fate, &stale, &n}, func() error {
		b := balances[partition]
		b.add(fate, n)
		if stale != nil {
			b.add(*stale, -n)
		}
		balances[partition] = b
		return nil
	})
	return balances, err
}

func (b *Balance) add(fate string, n int64) {
	switch fate {
	case "taken":
		b.Taken += n
		b.Difference += n
		return
	case "replay":
		b.Taken -= n
	case "charged":
		b.Charged += n
	case "duplicate":
		b.Duplicate += n
	case "waiting":
		b.Waiting += n
	case "dead":
		b.Dead += n
	case "dropped":
		b.Dropped += n
	case "resolved":
		b.Resolved += n
	}
	b.Difference -= n
}

// Sum adds partitions up. A difference in one can hide behind the opposite one in another: look at each.
func Sum(balances map[int32]Balance) (sum Balance) {
	for _, b := range balances {
		sum.Taken += b.Taken
		sum.Charged += b.Charged
		sum.Duplicate += b.Duplicate
		sum.Waiting += b.Waiting
		sum.Dead += b.Dead
		sum.Dropped += b.Dropped
		sum.Resolved += b.Resolved
		sum.Difference += b.Difference
	}
	return sum
}

// longestReading ends a reading that hangs. While one lasts the database keeps the old versions of all rows.
const longestReading = 30 * time.Minute

// unhurried reads in one snapshot, for as long as it takes, and locks nothing.
func (s *Store) unhurried(ctx context.Context, op string, read func(ctx context.Context, tx pgx.Tx) error) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return classify(err, acquiring).failure(op, err)
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, longestReading)
	defer cancel()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		return read(ctx, tx)
	})
	if err != nil {
		return classify(err, sent).failure(op, err)
	}
	return nil
}
