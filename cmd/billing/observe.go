package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/orders"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/telemetry"
	"example.com/billing/internal/retry"
)

// observeHandler measures every message: how many are handled, how late a retried one starts, how long it takes until its
// fate is durable.
func observeHandler(m *telemetry.Metrics, l retry.Ladder, log *slog.Logger, handle kafkaclient.Handler) kafkaclient.Handler {
	watch := watchTimes(log)
	return func(ctx context.Context, msg kafkaclient.Message) error {
		began := time.Now()
		watch(msg, began)
		if msg.Tries == 0 && msg.Topic != l.Main() {
			if due := l.Open(msg, began).NotBefore; !due.IsZero() {
				m.RetryLateness.WithLabelValues(msg.Topic).Observe(began.Sub(due).Seconds())
			}
		}
		inflight := m.Inflight.WithLabelValues(msg.Topic)
		inflight.Inc()
		defer inflight.Dec()
		err := handle(ctx, msg)
		if err == nil {
			m.MessageDuration.WithLabelValues(msg.Topic).Observe(time.Since(msg.Since).Seconds())
		}
		return err
	}
}

// watchTimes tells, once a minute at most, of a record whose time is in seconds. Without BILLING_MAX_AGE it is charged all the
// same, but the topic's retention removes such a record fifty years too early.
func watchTimes(log *slog.Logger) func(kafkaclient.Message, time.Time) {
	var told atomic.Int64 // Unix seconds
	return func(msg kafkaclient.Message, now time.Time) {
		meant, ok := orders.InSeconds(msg.Timestamp, now)
		if last := told.Load(); !ok || now.Unix()-last < 60 || !told.CompareAndSwap(last, now.Unix()) {
			return
		}
		log.Warn("a record's time is in seconds, Kafka counts milliseconds: its producer sets the wrong unit, and retention may remove it before it is charged",
			"topic", msg.Topic, "partition", msg.Partition, "offset", msg.Offset, "time", msg.Timestamp.UTC(), "meant", meant.UTC())
	}
}

func observeProvider(m *telemetry.Metrics) func(string, time.Duration) {
	return func(code string, d time.Duration) { m.ProviderDuration.WithLabelValues(code).Observe(d.Seconds()) }
}

// observeHold shows why the line is held, and the provider's breaker: open while the provider is down for everyone. The other
// instances are told at once.
func observeHold(m *telemetry.Metrics, tell func()) func(failure.Reason, bool) {
	show := func(r failure.Reason, on float64) {
		m.Hold.WithLabelValues(string(r)).Set(on)
		if r == failure.ProviderDown {
			m.Breaker.WithLabelValues("open").Set(on)
			m.Breaker.WithLabelValues("closed").Set(1 - on)
		}
	}
	show(failure.ProviderDown, 0)
	return func(r failure.Reason, on bool) {
		if on {
			show(r, 1)
		} else {
			show(r, 0)
		}
		tell()
	}
}

// countingStore counts what attempts left behind.
type countingStore struct {
	*pgstore.Store
	metrics *telemetry.Metrics
}

func (s countingStore) Settle(ctx context.Context, c *billing.Claim, st billing.Settlement) (bool, error) {
	held, err := s.Store.Settle(ctx, c, st)
	if err == nil {
		s.metrics.Charges.WithLabelValues(string(st.State)).Inc()
	}
	return held, err
}

// decodeDeadLetter reads order and amount of a dead letter, if they can be told.
func decodeDeadLetter(currency string) func(value []byte) (uuid.UUID, billing.Money) {
	return func(value []byte) (uuid.UUID, billing.Money) {
		event, err := orders.Decode(value, currency)
		if err != nil {
			return uuid.Nil, billing.Money{}
		}
		return event.OrderID, event.Amount
	}
}
