package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Taken tells up to which offset each partition of the topic was taken, as far as this database knows. A database that was set
// back knows of less than its consumer group has committed (hazard H27).
func (s *Store) Taken(ctx context.Context, topicID uuid.UUID) (taken map[int32]int64, err error) {
	var counted map[partitionKey]int64
	err = s.patiently(ctx, "read what was taken", func(ctx context.Context, db session) error {
		counted, err = readCounted(ctx, db, uuids{topicID})
		return err
	})
	taken = make(map[int32]int64, len(counted))
	for k, next := range counted {
		taken[k.partition] = next
	}
	return taken, err
}

// TakenFor is how long it has been kept what is taken of the topic; 0: it is not kept yet.
func (s *Store) TakenFor(ctx context.Context, topicID uuid.UUID) (d time.Duration, err error) {
	err = s.patiently(ctx, "read since when is counted", func(ctx context.Context, db session) error {
		var seconds float64
		err := db.QueryRow(ctx, `SELECT coalesce(max(extract(epoch FROM now() - taken_since)), 0)::float8 FROM known_topics WHERE topic_id = $1`, topicID).Scan(&seconds)
		d = time.Duration(seconds * float64(time.Second))
		return err
	})
	return d, err
}

// Blank reports whether the database was never worked with: there is no installation, and nothing was taken.
func (s *Store) Blank(ctx context.Context) (blank bool, err error) {
	err = s.patiently(ctx, "look whether the database is empty", func(ctx context.Context, db session) error {
		return db.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM installation) AND NOT EXISTS (SELECT FROM intake)`).Scan(&blank)
	})
	return blank, err
}

// CountTaken begins to keep what was taken of a topic, where nobody has yet: what its group has committed until now is the
// beginning. Once begun, the call changes nothing.
func (s *Store) CountTaken(ctx context.Context, topicID uuid.UUID, committed map[int32]int64) error {
	return s.noteTaken(ctx, "begin to count", `
		WITH begun AS (UPDATE known_topics SET taken_since = now() WHERE topic_id = $1 AND taken_since IS NULL RETURNING topic_id)
		INSERT INTO intake (topic_id, partition, first_offset, next_offset, records)
		SELECT topic_id, partition, next_offset AS first_offset, next_offset, 0 FROM begun, unnest($2::integer[], $3::bigint[]) AS p (partition, next_offset)
		ON CONFLICT DO NOTHING`, topicID, committed)
}

// AcceptTaken takes what the group has committed for taken, whatever this database knows of the records below.
func (s *Store) AcceptTaken(ctx context.Context, topicID uuid.UUID, committed map[int32]int64) error {
	return s.noteTaken(ctx, "accept offsets", `
		INSERT INTO intake AS t (topic_id, partition, first_offset, next_offset, records)
		SELECT $1, partition, next_offset AS first_offset, next_offset, 0 FROM unnest($2::integer[], $3::bigint[]) AS p (partition, next_offset)
		ON CONFLICT (topic_id, partition) DO UPDATE SET next_offset = excluded.next_offset, updated_at = now() WHERE t.next_offset < excluded.next_offset`,
		topicID, committed)
}

func (s *Store) noteTaken(ctx context.Context, op, sql string, topicID uuid.UUID, committed map[int32]int64) error {
	partitions, offsets := make([]int32, 0, len(committed)), make([]int64, 0, len(committed))
	for p, next := range committed {
		partitions, offsets = append(partitions, p), append(offsets, next)
	}
	return s.patiently(ctx, op, func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, sql, topicID, partitions, offsets)
		return err
	})
}
