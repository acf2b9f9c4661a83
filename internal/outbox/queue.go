package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/platform/crash"
	"example.com/billing/internal/platform/kafkaclient"
)

// event is one row of the outbox.
type event struct {
	id          int64
	eventID     uuid.UUID
	eventType   string
	orderID     uuid.UUID
	payload     []byte
	traceparent string
}

func (e event) record(topic string) kafkaclient.Record {
	headers := []kafkaclient.Header{
		{Key: "event_id", Value: []byte(e.eventID.String())},
		{Key: "event_type", Value: []byte(e.eventType)},
	}
	if e.traceparent != "" {
		headers = append(headers, kafkaclient.Header{Key: "traceparent", Value: []byte(e.traceparent)})
	}
	return kafkaclient.Record{Topic: topic, Key: []byte(e.orderID.String()), Value: e.payload, Headers: headers}
}

// dueSQL leaves out what waits for its next try, and what stands behind such an event of the same order. Only events with
// a failed try are in the index that it looks into.
const dueSQL = `
SELECT o.id, o.event_id, o.event_type, o.order_id, o.payload, coalesce(o.traceparent, '') FROM outbox o
WHERE o.next_try_at <= now() AND NOT EXISTS (
      SELECT FROM outbox f WHERE f.order_id = o.order_id AND f.id < o.id AND f.tries > 0 AND f.next_try_at > now())
ORDER BY o.id LIMIT $1`

// due reads the next batch: of each order its oldest event only, since the next must not overtake it when it fails.
func (r *Relay) due(ctx context.Context) ([]event, error) {
	rows, err := r.cfg.Pool.Query(ctx, dueSQL, batchSize)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	var events []event
	seen := map[uuid.UUID]bool{}
	var e event
	_, err = pgx.ForEachRow(rows, []any{&e.id, &e.eventID, &e.eventType, &e.orderID, &e.payload, &e.traceparent}, func() error {
		if !seen[e.orderID] {
			seen[e.orderID] = true
			events = append(events, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return events, nil
}

// afterPublish bounds the bookkeeping that follows an acknowledgement. It is done also when the relay is being stopped:
// what is not removed is published again.
const afterPublish = 3 * time.Second

func (r *Relay) remove(ids []int64) error {
	err := r.mark("remove published events", `DELETE FROM outbox WHERE id = ANY ($1)`, ids)
	crash.At(crash.OutboxDeleted)
	return err
}

// putOff gives each failed event a later try: 1 s, then twice as long each time, up to 32 s.
func (r *Relay) putOff(ids []int64) error {
	return r.mark("put off failed events", `
		UPDATE outbox SET tries = tries + 1, next_try_at = now() + interval '1 second' * power(2, least(tries, 5)) WHERE id = ANY ($1)`, ids)
}

func (r *Relay) mark(what, sql string, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), afterPublish)
	defer cancel()
	if _, err := r.cfg.Pool.Exec(ctx, sql, ids); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
