package pgstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// RecreatedError names topics that are not the ones this database has worked with: offsets start anew there (hazard H11).
type RecreatedError struct{ Topics []string }

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("topics were created again since this database worked with them: %s: what was committed means nothing there; check what was lost, then run `billing topics accept`", strings.Join(e.Topics, ", "))
}

// KnowTopics notes the incarnations of topics that are new to the database; others must be the ones it knows.
func (s *Store) KnowTopics(ctx context.Context, ids map[string]uuid.UUID) error {
	const insert = `INSERT INTO known_topics (name, topic_id) SELECT * FROM unnest($1::text[], $2::uuid[]) ON CONFLICT (name) DO NOTHING`
	known, err := s.writeTopics(ctx, insert, ids)
	if err != nil {
		return err
	}
	var other []string
	for name, id := range ids {
		if known[name] != id {
			other = append(other, name)
		}
	}
	if len(other) > 0 {
		slices.Sort(other)
		return &RecreatedError{other}
	}
	return nil
}

// AcceptTopics takes the incarnations as they are.
func (s *Store) AcceptTopics(ctx context.Context, ids map[string]uuid.UUID) error {
	_, err := s.writeTopics(ctx, `INSERT INTO known_topics (name, topic_id) SELECT * FROM unnest($1::text[], $2::uuid[])
		ON CONFLICT (name) DO UPDATE SET topic_id = excluded.topic_id, accepted_at = now()`, ids)
	return err
}

// writeTopics runs the statement and reads what is known of the names afterwards.
func (s *Store) writeTopics(ctx context.Context, sql string, ids map[string]uuid.UUID) (map[string]uuid.UUID, error) {
	names := slices.Sorted(maps.Keys(ids))
	given := make(uuids, len(names))
	for i, n := range names {
		given[i] = ids[n]
	}
	known := map[string]uuid.UUID{}
	err := s.patiently(ctx, "know topics", func(ctx context.Context, db session) error {
		if _, err := db.Exec(ctx, sql, names, given); err != nil {
			return err
		}
		rows, err := db.Query(ctx, `SELECT name, topic_id FROM known_topics WHERE name = ANY ($1)`, names)
		if err != nil {
			return err
		}
		var name string
		var id uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&name, &id}, func() error { known[name] = id; return nil })
		return err
	})
	return known, err
}

// KnownTopic is the incarnation that the database works with; zero: it has never worked with a topic of this name.
func (s *Store) KnownTopic(ctx context.Context, name string) (id uuid.UUID, err error) {
	err = s.patiently(ctx, "know a topic", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, `SELECT topic_id FROM known_topics WHERE name = $1`, name)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error { return nil })
		return err
	})
	return id, err
}
