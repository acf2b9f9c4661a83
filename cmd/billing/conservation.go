package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/telemetry"
)

// The balance reads all charges. It may take as long as it takes, and then rests a hundred times as long: whatever the size of
// the table, an instance spends one part in a hundred of its time on it, at most.
const (
	balanceRest    = time.Minute // at least
	balanceRestFor = 100         // times what the reading took
)

// conservation keeps the balance of the main topic fresh for the gauges (hazard H18). Each instance reads for itself.
type conservation struct {
	topic string
	read  func(ctx context.Context) (map[int32]pgstore.Balance, error)
	clock func() time.Time
	log   *slog.Logger

	mu    sync.Mutex
	off   int64 // records that the books cannot account for
	known bool
	at    time.Time // of the figure; until there is one, when the service began to look
}

func newConservation(topic string, read func(context.Context) (map[int32]pgstore.Balance, error), clock func() time.Time, log *slog.Logger) *conservation {
	return &conservation{topic: topic, read: read, clock: clock, log: log, at: clock()}
}

// register shows the figure once there is one, and always its age: a figure that cannot be read any more looks like an even one.
func (c *conservation) register(m *telemetry.Metrics) {
	one := func(v float64) []telemetry.Gauge { return []telemetry.Gauge{{Labels: []string{c.topic}, Value: v}} }
	m.GaugeFunc("billing_conservation_difference", "Records taken less the sum of their fates, added up over the partitions without signs; 0, or something is wrong: see `billing balance`.",
		[]string{"topic"}, func() []telemetry.Gauge {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.known {
				return nil
			}
			return one(float64(c.off))
		})
	m.GaugeFunc("billing_conservation_age_seconds", "Age of billing_conservation_difference; about a hundred times what a reading takes, and a minute at least.",
		[]string{"topic"}, func() []telemetry.Gauge {
			c.mu.Lock()
			defer c.mu.Unlock()
			return one(c.clock().Sub(c.at).Seconds())
		})
}

// run reads until ctx is done.
func (c *conservation) run(ctx context.Context) error {
	for {
		rest := time.NewTimer(c.refresh(ctx))
		select {
		case <-ctx.Done():
			rest.Stop()
			return nil
		case <-rest.C:
		}
	}
}

// refresh reads once and returns how long to rest. A figure that cannot be read keeps its value and grows old.
func (c *conservation) refresh(ctx context.Context) (rest time.Duration) {
	began := c.clock()
	balances, err := c.read(ctx)
	took := c.clock().Sub(began)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("balance not read, tried again later", "took", took.Round(time.Millisecond), "error", err)
		}
		return max(balanceRest, balanceRestFor*took)
	}
	var off int64
	for _, b := range balances { // one partition's record too many does not make up for another's that is missing
		off += max(b.Difference, -b.Difference)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if off != 0 && off != c.off {
		c.log.Error("the balance is not even, see `billing balance`", "topic", c.topic, "records", off)
	}
	c.off, c.known, c.at = off, true, began
	return max(balanceRest, balanceRestFor*took)
}
