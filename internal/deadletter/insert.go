package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/proof"
	"example.com/billing/internal/retry"
)

// inserter writes rows and positions.
type inserter struct {
	pool   *pgxpool.Pool
	lease  lease
	decode Decode
	main   string
}

// insert lists the records and moves the positions, all or nothing, and only as the one reader.
func (w inserter) insert(ctx context.Context, inc incarnation, records []kafkaclient.Message, next map[int32]int64) error {
	letters := make([]retry.DeadLetter, len(records))
	for i, m := range records {
		letters[i] = retry.OpenDeadLetter(m)
	}
	if err := unpark(ctx, w.pool, letters); err != nil {
		return err
	}
	b := &pgx.Batch{}
	for _, d := range letters {
		w.queue(b, inc, d)
	}
	for p, offset := range next {
		b.Queue(`UPDATE dead_letter_positions SET next_offset = $3, updated_at = now() WHERE topic_id = $1 AND partition = $2 AND next_offset < $3`, inc.id, p, offset)
	}
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if err := w.lease.confirm(ctx, tx); err != nil {
			return err
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return fmt.Errorf("list %d dead letters: %w", len(records), err)
	}
	return nil
}

// queue adds one row. Statement after statement, so that the second of two equal records in a batch finds the first
// (hazard H17). Equal is the body, too: headers alone can be forged. A record that is read again changes nothing.
func (w inserter) queue(b *pgx.Batch, inc incarnation, d retry.DeadLetter) {
	m := d.Message
	var o origin
	if d.OriginTopic != "" {
		o = origin{topic: &d.OriginTopic, partition: &d.OriginPart, offset: &d.OriginOffset, at: storable(d.OriginTime)}
		if d.OriginTopic == w.main {
			o.topicID = &inc.mainID
		}
	}
	var order *uuid.UUID
	var minor *int64
	var currency *string
	if id, amount := w.decode(m.Value); id != uuid.Nil {
		order = &id
		if amount.Currency != "" {
			minor, currency = &amount.Minor, &amount.Currency
		}
	}
	dead := storable(m.Timestamp)
	if dead == nil {
		dead = new(time.Now())
	}
	b.Queue(`
		INSERT INTO dead_letters (topic, topic_id, partition, "offset", class, reason, error, failures, order_id, amount_minor, currency,
			origin_topic, origin_topic_id, origin_partition, origin_offset, origin_at, first_failure_at, dead_at, replay_count, from_replay_id, body_hash, duplicate_of)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
			(SELECT min(id) FROM dead_letters WHERE origin_topic_id = $13 AND origin_partition = $14 AND origin_offset = $15 AND from_replay_id = $20
				AND (body_hash = $21 OR body_hash IS NULL) AND duplicate_of IS NULL)
		ON CONFLICT (topic_id, partition, "offset") DO NOTHING`,
		inc.topic, inc.id, m.Partition, m.Offset, string(d.Class), string(d.Reason), d.Error, d.Failures, order, minor, currency,
		o.topic, o.topicID, o.partition, o.offset, o.at, storable(d.FirstFailure), dead, d.ReplayCount, d.ReplayID, proof.BodyHash(m.Key, m.Value))
	if d.ReplayID != uuid.Nil { // it came back, so it was sent: a replay that died before it could write that down has ended
		b.Queue(`UPDATE dead_letters SET state = 'replayed', lease_until = NULL, finished_at = now()
			WHERE replay_id = $1 AND state = 'replaying' AND (body_hash = $2 OR body_hash IS NULL)`, d.ReplayID, proof.BodyHash(m.Key, m.Value))
	}
}

// origin is the record of the main topic, as far as the headers tell.
type origin struct {
	topic     *string
	topicID   *uuid.UUID
	partition *int32
	offset    *int64
	at        *time.Time
}

// storable is nil for a time that a header or a producer made up: neither Postgres nor JSON takes every one.
func storable(t time.Time) *time.Time {
	if t.Year() < 1970 || t.Year() > 9999 {
		return nil
	}
	return &t
}

// addPositions gives each partition that has none its position: the first record that is there.
func (w inserter) addPositions(ctx context.Context, inc incarnation, starts map[int32]int64) error {
	b := &pgx.Batch{}
	for p, start := range starts {
		b.Queue(`INSERT INTO dead_letter_positions (topic_id, partition, topic, next_offset) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			inc.id, p, inc.topic, start)
	}
	if err := w.pool.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("positions of %s: %w", inc.topic, err)
	}
	return nil
}

// positions are how far each partition of the topic is listed.
func positions(ctx context.Context, pool *pgxpool.Pool, topicID uuid.UUID) (map[int32]int64, error) {
	rows, err := pool.Query(ctx, `SELECT partition, next_offset FROM dead_letter_positions WHERE topic_id = $1`, topicID)
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", err)
	}
	next := map[int32]int64{}
	var partition int32
	var offset int64
	_, err = pgx.ForEachRow(rows, []any{&partition, &offset}, func() error { next[partition] = offset; return nil })
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", err)
	}
	return next, nil
}
