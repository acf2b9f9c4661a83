package main

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/fleet"
	"example.com/billing/internal/outbox"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/telemetry"
	"example.com/billing/internal/retry"
)

// gaugeSources are what the gauges are read from.
type gaugeSources struct {
	ladder   retry.Ladder
	crew     *crew
	instance *fleet.Instance
	reader   *kafkaclient.Reader
	relay    *outbox.Relay
	letters  *deadletter.List
	store    *pgstore.Store
	log      *slog.Logger
}

// gaugesEvery is how old a figure of the brokers or the database may be. Scrapes never wait for either.
const gaugesEvery = 10 * time.Second

// figures are the latest that could be read.
type figures struct {
	mu      sync.Mutex
	lag     []telemetry.Gauge
	letters deadletter.Stats
	outbox  outbox.Stats
	unknown pgstore.UnknownStats
}

// registerGauges shows what is read in the background, and the consumers' own state. Every instance shows the database's
// figures: rules use max.
func registerGauges(m *telemetry.Metrics, s gaugeSources) *figures {
	f := &figures{}
	read := func(values func() []telemetry.Gauge) func() []telemetry.Gauge {
		return func() []telemetry.Gauge { f.mu.Lock(); defer f.mu.Unlock(); return values() }
	}
	one := func(value func() float64) func() []telemetry.Gauge {
		return read(func() []telemetry.Gauge { return []telemetry.Gauge{{Value: value()}} })
	}
	dlq := s.ladder.DeadLetters()
	m.GaugeFunc("billing_consumer_lag", "Records that the group has not finished.", []string{"topic", "partition"}, read(func() []telemetry.Gauge { return f.lag }))
	m.GaugeFunc("billing_partition_paused", "1 while fetching is paused; the reason tells why.", []string{"topic", "partition", "reason"}, s.paused)
	m.GaugeFunc("billing_out_of_groups", "1 while this instance has left the consumer groups, since it alone is held.", nil, func() []telemetry.Gauge {
		out := 0.0
		if !s.instance.OutUntil().IsZero() {
			out = 1
		}
		return []telemetry.Gauge{{Value: out}}
	})
	m.GaugeFunc("billing_partition_stalled", "1 while a partition that is not paused has records and none comes.", []string{"topic", "partition"}, s.stalled)
	m.GaugeFunc("billing_consumer_not_joined", "1 while the group has owed this instance partitions for 30 s.", []string{"topic"}, s.notJoined)
	m.GaugeFunc("billing_dlq_unresolved", "Dead letters that wait for a person.", []string{"topic", "reason"}, read(func() (gs []telemetry.Gauge) {
		for reason, n := range f.letters.Unresolved {
			gs = append(gs, telemetry.Gauge{Labels: []string{dlq, string(reason)}, Value: float64(n)})
		}
		return gs
	}))
	m.GaugeFunc("billing_dlq_unresolved_amount", "Money of the dead letters that wait.", []string{"topic", "currency"}, read(func() (gs []telemetry.Gauge) {
		for currency, minor := range f.letters.Amount {
			amount, _ := strconv.ParseFloat(billing.Money{Minor: minor, Currency: currency}.Decimal(), 64) // for display only
			gs = append(gs, telemetry.Gauge{Labels: []string{dlq, currency}, Value: amount})
		}
		return gs
	}))
	m.GaugeFunc("billing_dlq_oldest_seconds", "Age of the oldest dead letter that waits.", []string{"topic"}, read(func() []telemetry.Gauge {
		return []telemetry.Gauge{{Labels: []string{dlq}, Value: f.letters.Oldest.Seconds()}}
	}))
	m.GaugeFunc("billing_outbox_unpublished", "Result events that are not out yet.", nil, one(func() float64 { return float64(f.outbox.Unpublished) }))
	m.GaugeFunc("billing_outbox_oldest_seconds", "Age of the oldest of them.", nil, one(func() float64 { return f.outbox.Oldest.Seconds() }))
	m.GaugeFunc("billing_unknown_outcomes", "Orders of which nobody knows whether they are charged, those in review included.", nil, one(func() float64 { return float64(f.unknown.Orders) }))
	m.GaugeFunc("billing_unknown_oldest_seconds", "How long the oldest of them has been so.", nil, one(func() float64 { return f.unknown.Oldest.Seconds() }))
	return f
}

// run keeps the figures fresh until ctx is done. One that cannot be read keeps its last value; readiness tells why.
func (f *figures) run(ctx context.Context, s gaugeSources) error {
	tick := time.NewTicker(gaugesEvery)
	defer tick.Stop()
	for {
		f.refresh(ctx, s)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (f *figures) refresh(ctx context.Context, s gaugeSources) {
	ctx, cancel := context.WithTimeout(ctx, gaugesEvery)
	defer cancel()
	keep := func(what string, err error, set func()) {
		if err != nil {
			s.log.Debug("figure not read", "figure", what, "error", err)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		set()
	}
	lag, err := s.lag(ctx)
	keep("lag", err, func() { f.lag = lag })
	letters, err := s.letters.Stats(ctx, s.ladder.DeadLetters())
	keep("dead letters", err, func() { f.letters = letters })
	out, err := s.relay.Stats(ctx)
	keep("outbox", err, func() { f.outbox = out })
	unknown, err := s.store.UnknownStats(ctx)
	keep("unknown outcomes", err, func() { f.unknown = unknown })
}

// lag is the end of each partition less what its group has committed.
func (s gaugeSources) lag(ctx context.Context) (gs []telemetry.Gauge, err error) {
	for _, c := range s.crew.configs {
		partitions, err := lags(ctx, s.reader.Admin, c.Group, c.Topic)
		if err != nil {
			return nil, err
		}
		for p, n := range partitions {
			gs = append(gs, telemetry.Gauge{Labels: []string{c.Topic, strconv.Itoa(int(p))}, Value: float64(n)})
		}
	}
	return gs, nil
}

func (s gaugeSources) paused() []telemetry.Gauge {
	return s.partitions(func(p kafkaclient.PartitionState) (bool, []string) { return p.Paused != "", []string{p.Paused} })
}

func (s gaugeSources) stalled() []telemetry.Gauge {
	return s.partitions(func(p kafkaclient.PartitionState) (bool, []string) { return p.Stalled, nil })
}

func (s gaugeSources) notJoined() (gs []telemetry.Gauge) {
	for _, c := range s.crew.list() {
		g := telemetry.Gauge{Labels: []string{c.Topic()}}
		if c.Outside() > 0 {
			g.Value = 1
		}
		gs = append(gs, g)
	}
	return gs
}

// partitions shows which of the assigned ones are so, with labels after topic and partition.
func (s gaugeSources) partitions(so func(kafkaclient.PartitionState) (bool, []string)) (gs []telemetry.Gauge) {
	for _, c := range s.crew.list() {
		for _, p := range c.State() {
			is, labels := so(p)
			g := telemetry.Gauge{Labels: append([]string{c.Topic(), strconv.Itoa(int(p.Partition))}, labels...)}
			if is {
				g.Value = 1
			}
			gs = append(gs, g)
		}
	}
	return gs
}
