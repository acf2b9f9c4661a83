package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// maxGap is how many records in between are read rather than skipped by a new assignment, which costs more.
const maxGap = 2000

// Records reads records of the dead-letter topic, whole: a body that was parked in the database for its size is put back.
type Records struct {
	pool   *pgxpool.Pool
	topics Topics
	reader Reader
}

// NewRecords makes a reader of records.
func NewRecords(pool *pgxpool.Pool, topics Topics, reader Reader) *Records {
	return &Records{pool: pool, topics: topics, reader: reader}
}

// At reads the records at the places. Those that are not there, any more or yet, are missing from the result.
func (r *Records) At(ctx context.Context, topic string, places []Place) (map[Place]retry.DeadLetter, error) {
	starts, err := r.topics.Starts(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("first offsets of %s: %w", topic, err)
	}
	ends, err := r.topics.Ends(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("end offsets of %s: %w", topic, err)
	}
	wanted := map[int32][]int64{}
	for _, p := range places {
		if p.Offset >= starts[p.Partition] && p.Offset < ends[p.Partition] {
			wanted[p.Partition] = append(wanted[p.Partition], p.Offset)
		}
	}
	var found []retry.DeadLetter
	for rounds := intoRounds(wanted); len(rounds) > 0; rounds = rounds[1:] {
		if err := r.read(ctx, topic, rounds[0], &found); err != nil {
			return nil, err
		}
	}
	if err := unpark(ctx, r.pool, found); err != nil {
		return nil, err
	}
	letters := map[Place]retry.DeadLetter{}
	for _, d := range found {
		letters[Place{d.Message.Partition, d.Message.Offset}] = d
	}
	return letters, nil
}

var errAllRead = errors.New("all read")

// read reads one run of offsets in each partition of the round.
func (r *Records) read(ctx context.Context, topic string, round map[int32]run, found *[]retry.DeadLetter) error {
	from, left := map[int32]int64{}, map[int32]run{}
	for p, run := range round {
		from[p], left[p] = run[0], run
	}
	err := r.reader.ReadFrom(ctx, topic, from, func(m kafkaclient.Message) error {
		rest := left[m.Partition]
		for len(rest) > 0 && rest[0] <= m.Offset {
			if rest[0] == m.Offset {
				*found = append(*found, retry.OpenDeadLetter(m))
			}
			rest = rest[1:]
		}
		if left[m.Partition] = rest; len(rest) == 0 {
			delete(left, m.Partition)
		}
		if len(left) == 0 {
			return errAllRead
		}
		return nil
	}, func(p int32, next int64) error {
		if rest := left[p]; len(rest) > 0 && rest[len(rest)-1] >= next {
			return nil
		}
		if delete(left, p); len(left) == 0 { // what is still asked for are no records
			return errAllRead
		}
		return nil
	})
	if errors.Is(err, errAllRead) {
		return nil
	}
	return fmt.Errorf("read %s: %w", topic, err)
}

// unpark puts keys and values back that were kept in the database (hazard H14).
func unpark(ctx context.Context, pool *pgxpool.Pool, letters []retry.DeadLetter) error {
	var ids []uuid.UUID
	for _, d := range letters {
		if d.Parked != uuid.Nil {
			ids = append(ids, d.Parked)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := pool.Query(ctx, `SELECT id, key, value FROM parked_bodies WHERE id = ANY($1)`, ids)
	if err != nil {
		return fmt.Errorf("read parked bodies: %w", err)
	}
	type body struct{ key, value []byte }
	bodies := map[uuid.UUID]body{}
	var id uuid.UUID
	var b body
	_, err = pgx.ForEachRow(rows, []any{&id, &b.key, &b.value}, func() error { bodies[id] = b; return nil })
	if err != nil {
		return fmt.Errorf("read parked bodies: %w", err)
	}
	for i, d := range letters {
		if kept, ok := bodies[d.Parked]; ok {
			letters[i].Message.Key, letters[i].Message.Value = kept.key, kept.value
		}
	}
	return nil
}
