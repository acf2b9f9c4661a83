package pgstore

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Intake is a range of one partition in which every record has a durable fate.
type Intake struct {
	TopicID   uuid.UUID
	Partition int32
	From      int64 // first offset received
	Next      int64 // offset after the last, or after what follows it and is no record
	Records   int64 // received in between: fewer than Next-From when offsets have holes; 0 when From is Next
	Counted   int64 // up to here this process has counted before; 0: nothing
}

// SetBackError tells that the database knows of less than this process has counted: it was restored to an earlier state, or
// a failover lost commits, while the service ran (hazard H27). What was charged meanwhile is forgotten; only a new start
// reads it again.
type SetBackError struct {
	Partition        int32
	Counted, Present int64
}

func (e *SetBackError) Error() string {
	return fmt.Sprintf("the database was set back while the service ran: partition %d was counted up to %d, and it knows of %d; a new start reads what it has forgotten",
		e.Partition, e.Counted, e.Present)
}

// OverlapError tells that a range with holes begins below what was counted before and ends above it: how many of its
// records are new cannot be told. The caller splits it at Counted.
type OverlapError struct {
	Intake  Intake
	Counted int64
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("intake of partition %d: [%d, %d) overlaps what was counted up to %d, and has holes", e.Intake.Partition, e.Intake.From, e.Intake.Next, e.Counted)
}

// advanceIntakeSQL counts only what lies beyond what was counted before: after a crash the last records come again. Of a
// range without holes the new part is known exactly. It does not jump over what this process has counted and the table does
// not know.
const advanceIntakeSQL = `
INSERT INTO intake AS t (topic_id, partition, first_offset, next_offset, records)
SELECT i.topic_id, i.partition, i.first_offset, i.next_offset, i.records
  FROM unnest($1::uuid[], $2::integer[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS i (topic_id, partition, first_offset, next_offset, records, counted)
 WHERE i.counted <= coalesce((SELECT p.next_offset FROM intake p WHERE p.topic_id = i.topic_id AND p.partition = i.partition), 0)
 ORDER BY 1, 2
ON CONFLICT (topic_id, partition) DO UPDATE SET
       records = t.records + least(excluded.records, excluded.next_offset - t.next_offset),
       next_offset = excluded.next_offset, updated_at = now()
 WHERE excluded.next_offset > t.next_offset
   AND (excluded.first_offset >= t.next_offset OR excluded.records = excluded.next_offset - excluded.first_offset)`

// AdvanceIntake counts the ranges, at most one for each partition. It is called after the fates of their records are
// stored and before their offsets are committed, so that every counted record has exactly one fate (hazard H18). A range
// that was counted before is not counted again, so the call may be repeated.
func (s *Store) AdvanceIntake(ctx context.Context, ranges []Intake) error {
	n := len(ranges)
	if n == 0 {
		return nil
	}
	topics, partitions := make(uuids, n), make([]int32, n)
	from, next, records, before := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, r := range ranges {
		if r.Records < 0 || r.Records > r.Next-r.From || r.Records == 0 && r.From != r.Next {
			return fmt.Errorf("intake of partition %d: %d records in [%d, %d)", r.Partition, r.Records, r.From, r.Next)
		}
		topics[i], partitions[i], from[i], next[i], records[i], before[i] = r.TopicID, r.Partition, r.From, r.Next, r.Records, r.Counted
	}
	var counted map[partitionKey]int64
	err := s.patiently(ctx, "advance intake", func(ctx context.Context, db session) error {
		tag, err := db.Exec(ctx, advanceIntakeSQL, topics, partitions, from, next, records, before)
		if err != nil || tag.RowsAffected() == int64(n) {
			return err
		}
		counted, err = readCounted(ctx, db, topics)
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range ranges {
		c, ok := counted[partitionKey{r.TopicID, r.Partition}]
		switch {
		case counted != nil && c < r.Counted:
			return &SetBackError{Partition: r.Partition, Counted: r.Counted, Present: c}
		case ok && c < r.Next:
			return &OverlapError{Intake: r, Counted: c}
		}
	}
	return nil
}

type partitionKey struct {
	topicID   uuid.UUID
	partition int32
}

func readCounted(ctx context.Context, db session, topics uuids) (map[partitionKey]int64, error) {
	rows, err := db.Query(ctx, `SELECT topic_id, partition, next_offset FROM intake WHERE topic_id = ANY ($1::uuid[])`, topics)
	if err != nil {
		return nil, err
	}
	counted := map[partitionKey]int64{}
	var k partitionKey
	var next int64
	_, err = pgx.ForEachRow(rows, []any{&k.topicID, &k.partition, &next}, func() error {
		counted[k] = next
		return nil
	})
	return counted, err
}
