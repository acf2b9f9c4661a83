package outbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/platform/kafkaclient"
)

// row is an event that waits.
type row struct {
	id          int64
	eventID     uuid.UUID
	eventType   string
	orderID     uuid.UUID
	payload     []byte
	traceparent string
}

func (r row) record(topic string) kafkaclient.Record {
	hs := []kafkaclient.Header{{Key: "event_id", Value: []byte(r.eventID.String())}, {Key: "event_type", Value: []byte(r.eventType)}}
	if r.traceparent != "" {
		hs = append(hs, kafkaclient.Header{Key: "traceparent", Value: []byte(r.traceparent)})
	}
	return kafkaclient.Record{Topic: topic, Key: []byte(r.orderID.String()), Value: r.payload, Headers: hs}
}

// readSQL leaves out events whose turn has not come, and later ones of the same order behind them.
const (
	readSQL = `SELECT id, event_id, event_type, order_id, payload, coalesce(traceparent, '') FROM outbox ORDER BY id LIMIT $1`

	readAroundSQL = `SELECT id, event_id, event_type, order_id, payload, coalesce(traceparent, '') FROM outbox o
WHERE next_try_at <= now()
  AND NOT EXISTS (SELECT FROM outbox b WHERE b.next_try_at > now() AND b.order_id = o.order_id AND b.id < o.id)
ORDER BY id LIMIT $1`
)

// read takes the oldest events, of each order one: if that fails, the next one must not go out before it. The longer
// statement is needed only while some wait for another try.
func (r *Relay) read(ctx context.Context) ([]row, error) {
	sql := readSQL
	if r.blocked {
		err := r.cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox WHERE next_try_at > now())`).Scan(&r.blocked)
		if err != nil {
			return nil, fmt.Errorf("read the outbox: %w", err)
		}
		if r.blocked {
			sql = readAroundSQL
		}
	}
	rows, err := r.cfg.Pool.Query(ctx, sql, batchSize)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	batch, err := pgx.CollectRows(rows, func(row_ pgx.CollectableRow) (w row, err error) {
		return w, row_.Scan(&w.id, &w.eventID, &w.eventType, &w.orderID, &w.payload, &w.traceparent)
	})
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	seen := make(map[uuid.UUID]bool, len(batch))
	return slices.DeleteFunc(batch, func(w row) bool {
		again := seen[w.orderID]
		seen[w.orderID] = true
		return again
	}), nil
}

// finish deletes what was acknowledged. What failed waits, and with it later events of its order.
func (r *Relay) finish(ctx context.Context, batch []row, errs []error) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	var acked, failed []int64
	var cause error
	for i, row := range batch {
		if errs[i] == nil {
			acked = append(acked, row.id)
		} else {
			failed, cause = append(failed, row.id), errs[i]
		}
	}
	if _, err := r.cfg.Pool.Exec(ctx, `DELETE FROM outbox WHERE id = ANY ($1)`, acked); err != nil {
		return fmt.Errorf("delete published events: %w", err)
	}
	if len(failed) == 0 {
		return nil
	}
	r.blocked = true
	_, err := r.cfg.Pool.Exec(ctx, `UPDATE outbox SET tries = tries + 1, next_try_at = now() + least(interval '1 minute', interval '250 milliseconds' * 2 ^ least(tries, 10)) WHERE id = ANY ($1)`, failed)
	if err != nil {
		return fmt.Errorf("put off failed events: %w", err)
	}
	return fmt.Errorf("%d of %d events not published: %w", len(failed), len(batch), cause)
}

// hold takes or renews the lease, at a third of its length.
func (r *Relay) hold(ctx context.Context) (bool, error) {
	if !r.renewed.IsZero() && r.cfg.Clock().Sub(r.renewed) < r.cfg.Lease/3 {
		return true, nil
	}
	started, first := r.cfg.Clock(), r.renewed.IsZero()
	tag, err := r.cfg.Pool.Exec(ctx, `
		INSERT INTO leases AS l (name, owner, expires_at) VALUES ('outbox', $1, now() + $2::interval)
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
		 WHERE l.owner = excluded.owner OR l.expires_at < now()`, r.owner, r.cfg.Lease)
	if err != nil {
		return false, fmt.Errorf("take the relay's lease: %w", err)
	}
	if tag.RowsAffected() == 0 {
		r.renewed = time.Time{}
		return false, nil
	}
	if r.renewed = started; first {
		r.blocked = true // until a read shows that nothing waits
	}
	return true, nil
}

// release lets another instance take over at once.
func (r *Relay) release() {
	if r.renewed.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := r.cfg.Pool.Exec(ctx, `DELETE FROM leases WHERE name = 'outbox' AND owner = $1`, r.owner); err != nil {
		r.cfg.Log.Debug("relay's lease left to run out", "error", err)
	}
}

// Stats are the figures of the outbox.
type Stats struct {
	Unpublished int64
	OldestAge   time.Duration
}

// Stats counts what waits.
func (r *Relay) Stats(ctx context.Context) (s Stats, err error) {
	var seconds float64
	err = r.cfg.Pool.QueryRow(ctx, `SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM outbox`).Scan(&s.Unpublished, &seconds)
	s.OldestAge = max(0, time.Duration(seconds*float64(time.Second)))
	return s, err
}
