package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Started notes that an assignment begins at its committed offset, and returns how many in a row began there and did not
// end well, this one included (hazards H15, H33).
func (s *Store) Started(ctx context.Context, topic string, partition int32, committed int64) (times int, err error) {
	return s.countAlone(ctx, "note an assignment", `
		INSERT INTO partition_starts AS p (topic, partition, committed_offset) VALUES ($1, $2, $3)
		ON CONFLICT (topic, partition) DO UPDATE SET committed_offset = excluded.committed_offset,
		       starts = CASE WHEN p.committed_offset = excluded.committed_offset THEN p.starts + 1 ELSE 1 END
		RETURNING starts`, topic, partition, committed)
}

// EndedWell takes back the notes of assignments that began at these offsets. Where another one has begun elsewhere since,
// there is none.
func (s *Store) EndedWell(ctx context.Context, topic string, began map[int32]int64) error {
	var partitions []int32
	var offsets []int64
	for p, at := range began {
		partitions, offsets = append(partitions, p), append(offsets, at)
	}
	return s.patiently(ctx, "note the good end of assignments", func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, `
			UPDATE partition_starts s SET starts = s.starts - 1 FROM unnest($2::integer[], $3::bigint[]) AS b (partition, committed)
			WHERE s.topic = $1 AND s.partition = b.partition AND s.committed_offset = b.committed AND s.starts > 0`, topic, partitions, offsets)
		return err
	})
}

// BeginAlone notes that a record is handled alone, and returns how often that began without an end, this time included.
func (s *Store) BeginAlone(ctx context.Context, topic string, partition int32, offset int64) (tries int, err error) {
	return s.countAlone(ctx, "note a lonely record", `
		INSERT INTO lonely_records AS r (topic, partition, "offset") VALUES ($1, $2, $3)
		ON CONFLICT (topic, partition, "offset") DO UPDATE SET tries = r.tries + 1 RETURNING tries`, topic, partition, offset)
}

// EndAlone notes that the process has outlived the record. With its fate decided the record is forgotten; else, while it
// waits for the lease of the process that died, only this try is: the deaths before it still count.
func (s *Store) EndAlone(ctx context.Context, topic string, partition int32, offset int64, decided bool) error {
	return s.patiently(ctx, "note the end of a lonely record", func(ctx context.Context, db session) error {
		sql := `UPDATE lonely_records SET tries = tries - 1 WHERE topic = $1 AND partition = $2 AND "offset" = $3`
		if decided {
			sql = `DELETE FROM lonely_records WHERE topic = $1 AND partition = $2 AND "offset" = $3`
		}
		_, err := db.Exec(ctx, sql, topic, partition, offset)
		return err
	})
}

// countAlone may count once too often when an answer is lost, and EndAlone once too little: a try more or less.
func (s *Store) countAlone(ctx context.Context, op, sql string, args ...any) (n int, err error) {
	err = s.patiently(ctx, op, func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		n, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		return err
	})
	return n, err
}
