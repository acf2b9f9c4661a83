// Package outbox carries result events from the database to the broker.
//
// It promises that every event which was committed is published at least once, and that the events of one order are first
// published in the order in which they were committed. An event may come twice, also an older one after a newer one when
// an instance was frozen in the middle; its id and its version tell a consumer. The relay never reads by a cursor, since
// ids become visible out of order, and never holds a transaction open while the broker works.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/platform/crash"
	"example.com/billing/internal/platform/kafkaclient"
)

// Publisher writes records. kafkaclient.Producer is the one implementation.
type Publisher interface {
	// PublishAll waits for all acknowledgements. Errors are in the order of the records; nil means acknowledged.
	PublishAll(ctx context.Context, rs []kafkaclient.Record) []error
}

// Config of a relay.
type Config struct {
	Pool      *pgxpool.Pool
	Publisher Publisher
	Topic     string
	Log       *slog.Logger
}

const (
	batchSize      = 500
	publishTimeout = 10 * time.Second
	gather         = 20 * time.Millisecond // between batches that are not full: each costs two round trips and a commit
	idleMin        = 50 * time.Millisecond
	idleMax        = time.Second
	lastRounds     = 500 * time.Millisecond // after the stop: ample for what the last settlements wrote, little of the stop's time
)

// Relay publishes what stands in the outbox, as long as this instance is the one that may.
type Relay struct {
	cfg   Config
	lease *lease
	wake  chan struct{}
}

// New makes a relay. It works while Run does.
func New(cfg Config) (*Relay, error) {
	if cfg.Pool == nil || cfg.Publisher == nil || cfg.Topic == "" || cfg.Log == nil {
		return nil, errors.New("outbox: pool, publisher, topic and log are required")
	}
	return &Relay{cfg: cfg, lease: newLease(cfg.Pool, "outbox"), wake: make(chan struct{}, 1)}, nil
}

// Notify tells the relay that events were committed. It never blocks.
func (r *Relay) Notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx is done, and then what was committed until then, if the broker takes it within a moment. Of all
// instances one is active; when it is gone another takes over within the lease.
func (r *Relay) Run(ctx context.Context) error {
	grace, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	forget := context.AfterFunc(ctx, func() { time.AfterFunc(lastRounds, end) })
	defer forget()
	for !done(ctx) {
		if err := r.lease.while(grace, func(held context.Context) error { return r.relay(ctx, held) }); err != nil && !done(ctx) {
			r.cfg.Log.Warn("outbox relay interrupted, tried again", "error", err)
		}
		pause(ctx, nil, leaseRenewal)
	}
	return nil
}

// relay publishes batch after batch until the lease is lost, or we stop and a round that began after that leaves nothing.
func (r *Relay) relay(stop, held context.Context) error {
	idle := idleMin
	for !done(held) {
		stopping := done(stop)
		found, published, err := r.round(held)
		switch {
		case err != nil:
			return err
		case stopping && (found == 0 || published < found):
			return nil
		case published == batchSize:
			idle = idleMin
		case published > 0:
			pause(stop, nil, gather)
			idle = idleMin
		case found > 0: // the broker takes nothing: new events change nothing about that
			pause(stop, nil, idleMax)
		default:
			pause(stop, r.wake, idle)
			idle = min(2*idle, idleMax)
		}
	}
	return nil
}

// round publishes one batch, removes exactly what was acknowledged, and puts off what was not.
func (r *Relay) round(ctx context.Context) (found, published int, err error) {
	events, err := r.due(ctx)
	if err != nil || len(events) == 0 || !r.lease.live() {
		return 0, 0, err
	}
	records := make([]kafkaclient.Record, len(events))
	for i, e := range events {
		records[i] = e.record(r.cfg.Topic)
	}
	publish, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	var acked, failed []int64
	var last error
	for i, err := range r.cfg.Publisher.PublishAll(publish, records) {
		if err == nil {
			acked = append(acked, events[i].id)
			continue
		}
		failed, last = append(failed, events[i].id), err
	}
	crash.At(crash.OutboxPublished)
	if done(ctx) { // we stop, or another has taken over: what failed is not the broker's fault
		return 0, 0, r.remove(acked)
	}
	if len(failed) > 0 {
		r.cfg.Log.Warn("result events not acknowledged, kept and tried again", "events", len(failed), "of", len(events), "error", last)
	}
	return len(events), len(acked), errors.Join(r.remove(acked), r.putOff(failed))
}

func done(ctx context.Context) bool { return ctx.Err() != nil }

// pause waits for a wake-up, but no longer than d.
func pause(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// Stats are what monitoring asks for. The age of the oldest event tells more than their number.
type Stats struct {
	Unpublished int64
	Oldest      time.Duration
}

// Stats reads what stands in the outbox.
func (r *Relay) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	var seconds float64
	err := r.cfg.Pool.QueryRow(ctx, `SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM outbox`).Scan(&s.Unpublished, &seconds)
	if err != nil {
		return Stats{}, fmt.Errorf("outbox stats: %w", err)
	}
	s.Oldest = max(0, time.Duration(seconds*float64(time.Second)))
	return s, nil
}
