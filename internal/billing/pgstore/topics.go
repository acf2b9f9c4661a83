package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// KnownTopic is a topic that this database has worked with.
type KnownTopic struct {
	Name   string
	ID     uuid.UUID // of the incarnation: a topic that is created again has another
	Group  string    // that reads it; empty: it is only written to
	ReadTo []int64   // by partition: below it nothing waits, whatever the group's offsets say; may be shorter than the topic
}

// RecreatedError names topics that are not the ones this database has worked with: offsets start anew there (hazard H11).
type RecreatedError struct{ Topics []string }

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("topics were created again since this database worked with them: %s: what was committed means nothing there; check what was lost, then run `billing topics accept`", strings.Join(e.Topics, ", "))
}

// groupOf is the group of a topic that an older release has noted: those of the retry topics follow from their names.
const groupOf = `coalesce(consumer_group, (SELECT consumer_group FROM installation) || coalesce('-' || substring(name FROM '[.](retry-[^.]+)$'), ''), '')`

// KnownTopics are all topics that this database has ever worked with, by name.
func (s *Store) KnownTopics(ctx context.Context) (known []KnownTopic, err error) {
	err = s.patiently(ctx, "read known topics", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, `SELECT name, topic_id, `+groupOf+`, coalesce(read_to, '{}') FROM known_topics ORDER BY name`)
		if err != nil {
			return err
		}
		known, err = pgx.CollectRows(rows, pgx.RowToStructByPos[KnownTopic])
		return err
	})
	return known, err
}

// KnowTopics notes the topics that are new to the database; others must be the incarnations that it knows.
func (s *Store) KnowTopics(ctx context.Context, topics []KnownTopic) error {
	const insert = `INSERT INTO known_topics (name, topic_id, consumer_group) SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[])
		ON CONFLICT (name) DO UPDATE SET consumer_group = excluded.consumer_group
		 WHERE known_topics.topic_id = excluded.topic_id AND known_topics.consumer_group IS DISTINCT FROM excluded.consumer_group`
	if err := s.writeTopics(ctx, insert, topics); err != nil {
		return err
	}
	known, err := s.KnownTopics(ctx)
	if err != nil {
		return err
	}
	return Recreated(known, topics)
}

// Recreated is a *RecreatedError when some of the topics are known by another id; nil otherwise.
func Recreated(known, topics []KnownTopic) error {
	ids := map[string]uuid.UUID{}
	for _, k := range known {
		ids[k.Name] = k.ID
	}
	var other []string
	for _, t := range topics {
		if id, ok := ids[t.Name]; ok && id != t.ID {
			other = append(other, t.Name)
		}
	}
	if len(other) == 0 {
		return nil
	}
	slices.Sort(other)
	return &RecreatedError{other}
}

// AcceptTopics takes the incarnations as they are. What was read of others means nothing any more.
func (s *Store) AcceptTopics(ctx context.Context, topics []KnownTopic) error {
	return s.writeTopics(ctx, `INSERT INTO known_topics (name, topic_id, consumer_group) SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[])
		ON CONFLICT (name) DO UPDATE SET topic_id = excluded.topic_id, consumer_group = excluded.consumer_group, read_to = NULL, taken_since = NULL, accepted_at = now()
		 WHERE known_topics.topic_id <> excluded.topic_id`, topics)
}

func (s *Store) writeTopics(ctx context.Context, sql string, topics []KnownTopic) error {
	names, groups, ids := make([]string, len(topics)), make([]string, len(topics)), make(uuids, len(topics))
	for i, t := range topics {
		names[i], ids[i], groups[i] = t.Name, t.ID, t.Group
	}
	return s.patiently(ctx, "know topics", func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, sql, names, ids, groups)
		return err
	})
}

// NoteRead keeps how far a topic was read that is not read any more.
func (s *Store) NoteRead(ctx context.Context, t KnownTopic) error {
	return s.patiently(ctx, "note what was read", func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, `UPDATE known_topics SET read_to = $3 WHERE name = $1 AND topic_id = $2`, t.Name, t.ID, t.ReadTo)
		return err
	})
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
