package pgstore

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Deleted is a range of a partition that retention deleted before it was handled.
type Deleted struct {
	TopicID   uuid.UUID
	Topic     string
	Partition int32
	From, To  int64 // To is the first record that was still there
}

// NoteDeleted keeps the range until a person accepts it, and returns how many of its offsets are new. A range may be told
// again, and be longer by then: it is then accepted anew.
func (s *Store) NoteDeleted(ctx context.Context, d Deleted) (fresh int64, err error) {
	err = s.patiently(ctx, "note deleted records", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, `
			WITH before AS (SELECT to_offset FROM deleted_records WHERE topic_id = $1 AND partition = $2 AND from_offset = $3)
			INSERT INTO deleted_records AS d (topic_id, partition, from_offset, to_offset, topic) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (topic_id, partition, from_offset) DO UPDATE SET to_offset = excluded.to_offset, noticed_at = now(), accepted_at = NULL
			 WHERE d.to_offset < excluded.to_offset
			RETURNING to_offset - coalesce((SELECT to_offset FROM before), from_offset)`, d.TopicID, d.Partition, d.From, d.To, d.Topic)
		if err != nil {
			return err
		}
		fresh = 0
		_, err = pgx.ForEachRow(rows, []any{&fresh}, func() error { return nil })
		return err
	})
	return fresh, err
}

const deletedColumns = `topic_id, topic, partition, from_offset, to_offset`

// DeletedRecords are the ranges that no person has accepted yet.
func (s *Store) DeletedRecords(ctx context.Context) ([]Deleted, error) {
	return s.deleted(ctx, "read deleted records", `SELECT `+deletedColumns+` FROM deleted_records WHERE accepted_at IS NULL ORDER BY topic, partition, from_offset`)
}

// AcceptDeleted takes those ranges as they are, and returns them.
func (s *Store) AcceptDeleted(ctx context.Context) ([]Deleted, error) {
	return s.deleted(ctx, "accept deleted records", `UPDATE deleted_records SET accepted_at = now() WHERE accepted_at IS NULL RETURNING `+deletedColumns)
}

func (s *Store) deleted(ctx context.Context, op, sql string) (all []Deleted, err error) {
	err = s.patiently(ctx, op, func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, sql)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Deleted])
		return err
	})
	return all, err
}
