// Package outbox publishes the result events that the store wrote in the transactions of its state changes.
//
// It promises that no event is lost and that the events of one order go out in the order of their ids; one may go out
// twice after a crash, under the same event id. One relay is active at a time, whatever the number of instances. It keeps no
// cursor: ids become visible out of order, and a cursor loses those (docs/adr/0003).
package outbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/platform/kafkaclient"
)

// Publisher writes records; nil for each that all in-sync replicas have acknowledged.
type Publisher interface {
	PublishAll(ctx context.Context, rs []kafkaclient.Record) []error
}

// Config of a relay. Zero durations take their defaults.
type Config struct {
	Pool      *pgxpool.Pool
	Publisher Publisher
	Topic     string
	Lease     time.Duration // 5 s: how long a dead instance may still be the one relay
	Clock     func() time.Time
	Log       *slog.Logger
}

const (
	batchSize      = 500
	pace           = 20 * time.Millisecond // lets a batch gather under load: each one is three round trips
	idleMin        = 50 * time.Millisecond
	idleMax        = time.Second
	publishTimeout = 15 * time.Second
)

// Relay moves events from the table to the topic.
type Relay struct {
	cfg     Config
	owner   uuid.UUID
	wake    chan struct{}
	renewed time.Time // when the lease was last taken; zero: not ours
	blocked bool      // some rows may wait for their next try
}

// New checks the settings.
func New(cfg Config) (*Relay, error) {
	if cfg.Pool == nil || cfg.Publisher == nil || cfg.Topic == "" || cfg.Clock == nil || cfg.Log == nil {
		return nil, errors.New("outbox: pool, publisher, topic, clock and log are required")
	}
	if cfg.Lease == 0 {
		cfg.Lease = 5 * time.Second
	}
	return &Relay{cfg: cfg, owner: uuid.New(), wake: make(chan struct{}, 1)}, nil
}

// Notify tells that events were written. It never blocks.
func (r *Relay) Notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run relays until ctx is done. No error ends it: it tries again.
func (r *Relay) Run(ctx context.Context) error {
	defer r.release()
	idle := idleMin
	for ctx.Err() == nil {
		moved, err := r.step(ctx)
		if err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("outbox not relayed, tried again", "error", err)
			r.renewed = time.Time{}
		}
		switch {
		case moved == batchSize && err == nil: // more waits
		case moved > 0 && err == nil:
			idle = idleMin
			r.sleep(ctx, pace, nil)
		default:
			r.sleep(ctx, idle, r.wake)
			idle = min(2*idle, idleMax)
		}
	}
	return nil
}

// sleep ends early when it is woken, but only the active relay listens to that.
func (r *Relay) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	if r.renewed.IsZero() {
		wake = nil
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}

// step relays one batch, if this is the active relay.
func (r *Relay) step(ctx context.Context) (moved int, err error) {
	if held, err := r.hold(ctx); err != nil || !held {
		return 0, err
	}
	batch, err := r.read(ctx)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	bounded, cancel := context.WithTimeout(ctx, min(publishTimeout, r.cfg.Lease))
	defer cancel()
	records := make([]kafkaclient.Record, len(batch))
	for i, row := range batch {
		records[i] = row.record(r.cfg.Topic)
	}
	errs := r.cfg.Publisher.PublishAll(bounded, records)
	return len(batch), r.finish(context.WithoutCancel(ctx), batch, errs)
}
