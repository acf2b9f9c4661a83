package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/telemetry"
)

// leftWatch looks for topics that are left behind while the service runs: in a rolling change of settings an instance with
// the old ones may stop with orders in a topic that nobody reads any more (hazard H28).
type leftWatch struct {
	leftBehind
	log *slog.Logger

	mu     sync.Mutex
	left   []leftTopic // that nobody reads
	failed string      // why the last look told nothing; empty: it did
	again  string      // what a person must decide before anything can be told; empty: nothing
}

// leftEvery is how long such a topic can stay unnoticed, once its last reader's session has ended.
const leftEvery = 10 * time.Second

// register shows what nobody reads.
func (w *leftWatch) register(m *telemetry.Metrics) {
	m.GaugeFunc("billing_unread_records", "Orders in a topic of other settings that no instance reads; see `billing topics drain`.", []string{"topic"}, func() (gs []telemetry.Gauge) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, t := range w.left {
			gs = append(gs, telemetry.Gauge{Labels: []string{t.Topic}, Value: float64(t.Records)})
		}
		return gs
	})
}

// run looks until ctx is done. What cannot be told keeps its state: readiness has parts for the brokers and the database.
func (w *leftWatch) run(ctx context.Context) error {
	tick := time.NewTicker(leftEvery)
	defer tick.Stop()
	for {
		w.refresh(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *leftWatch) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, topicsDeadline)
	defer cancel()
	found, err := w.look(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.fail(ctx, err)
		return
	}
	w.failed, w.again = "", ""
	left := slices.DeleteFunc(found, func(t leftTopic) bool { return t.Read })
	for _, t := range left {
		if !slices.Contains(w.left, t) {
			w.log.Error("orders wait in a topic that nobody reads", "topic", t.Topic, "group", t.Group, "records", t.Records, "next", "billing topics drain "+t.Topic)
		}
	}
	for _, t := range w.left {
		if !slices.ContainsFunc(left, func(now leftTopic) bool { return now.Topic == t.Topic }) {
			w.log.Info("no orders wait any more in a topic that nobody read", "topic", t.Topic)
		}
	}
	w.left = left
}

// fail tells once that nothing can be told. A topic that was created again needs a person; other errors pass by themselves.
func (w *leftWatch) fail(ctx context.Context, err error) {
	if ctx.Err() == nil && w.failed == "" {
		w.log.Warn("cannot tell whether orders wait in topics of other settings", "error", err)
	}
	w.failed, w.again = err.Error(), ""
	if r, ok := errors.AsType[*pgstore.RecreatedError](err); ok {
		w.again = r.Error()
	}
}

// state is what readiness shows.
func (w *leftWatch) state(context.Context) admin.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	var reasons []string
	if w.again != "" {
		reasons = []string{w.again}
	}
	for _, t := range w.left {
		reasons = append(reasons, t.next(w.ladder))
	}
	if len(reasons) == 0 {
		return admin.Health{State: admin.Ready}
	}
	return admin.Health{State: admin.LeftBehind, Detail: strings.Join(reasons, "; ")}
}
