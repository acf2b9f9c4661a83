package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/telemetry"
)

// aheadWatch looks for partitions of which a group has committed more than our books know. An instance of ours notes what it
// has taken before it commits, so somebody else has committed: another program that joined the group by mistake, or a person
// who set offsets forward. A database that was restored looks the same. The orders between have been handled by nobody.
//
// They are read when the partition is assigned to an instance of ours the next time (hazard H27). As long as the other
// program has the partition nothing can be done about it from here: the watch tells a person.
type aheadWatch struct {
	consumers []kafkaclient.ConsumerConfig // topics and groups of this instance
	reader    *kafkaclient.Reader
	store     *pgstore.Store
	topics    topicIDs
	log       *slog.Logger

	mu    sync.Mutex
	ahead []aheadOfBooks // by topic and partition
}

// aheadOfBooks is a partition whose group is ahead of our books.
type aheadOfBooks struct {
	topic, group     string
	partition        int32
	committed, taken int64
	reader           string // who reads it now; empty: nobody
}

func (a aheadOfBooks) same(b aheadOfBooks) bool {
	return a.topic == b.topic && a.partition == b.partition
}

func (a aheadOfBooks) String() string {
	reader := a.reader
	if reader == "" {
		reader = "nobody"
	}
	return fmt.Sprintf("%s[%d]: group %s has committed up to %d, our books know only up to %d, and %s reads it now: stop that client if it is not this service, and the orders between are read",
		a.topic, a.partition, a.group, a.committed, a.taken, reader)
}

// aheadEvery is how long this can stay unnoticed.
const aheadEvery = 10 * time.Second

// register shows how many offsets nobody of ours has taken.
func (w *aheadWatch) register(m *telemetry.Metrics) {
	m.GaugeFunc("billing_committed_ahead", "Offsets that the group has committed beyond what our books know; somebody else has committed them.",
		[]string{"topic", "partition"}, func() (gs []telemetry.Gauge) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, a := range w.ahead {
				gs = append(gs, telemetry.Gauge{Labels: []string{a.topic, fmt.Sprint(a.partition)}, Value: float64(a.committed - a.taken)})
			}
			return gs
		})
}

// run looks until ctx is done. What cannot be told keeps its state: readiness has parts for the brokers and the database.
func (w *aheadWatch) run(ctx context.Context) error {
	tick := time.NewTicker(aheadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		w.refresh(ctx)
	}
}

func (w *aheadWatch) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, topicsDeadline)
	defer cancel()
	var ahead []aheadOfBooks
	for _, c := range w.consumers {
		found, err := w.look(ctx, c.Topic, c.Group)
		if err != nil {
			w.log.Debug("committed offsets not compared with our books", "topic", c.Topic, "error", err)
			return
		}
		ahead = append(ahead, found...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range ahead {
		if !slices.ContainsFunc(w.ahead, a.same) {
			w.log.Error("the group has committed records that this service has not taken: another program may have joined it",
				"topic", a.topic, "partition", a.partition, "group", a.group, "committed", a.committed, "taken", a.taken, "reader", a.reader)
		}
	}
	for _, a := range w.ahead {
		if !slices.ContainsFunc(ahead, a.same) {
			w.log.Info("the group has committed nothing any more that this service has not taken", "topic", a.topic, "partition", a.partition)
		}
	}
	w.ahead = ahead
}

// look compares. The books are asked last: what was committed before is in them by then.
func (w *aheadWatch) look(ctx context.Context, topic, group string) (ahead []aheadOfBooks, err error) {
	committed, err := committedOf(ctx, w.reader.Admin, group, topic)
	if err != nil {
		return nil, err
	}
	taken, err := w.store.Taken(ctx, w.topics.id(topic))
	if err != nil {
		return nil, err
	}
	for p, next := range committed {
		if next > taken[p] {
			ahead = append(ahead, aheadOfBooks{topic: topic, group: group, partition: p, committed: next, taken: taken[p]})
		}
	}
	if len(ahead) == 0 {
		return nil, nil
	}
	readers, err := w.reader.Readers(ctx, group, topic)
	for i, a := range ahead {
		ahead[i].reader = readers[a.partition]
	}
	slices.SortFunc(ahead, func(a, b aheadOfBooks) int { return int(a.partition - b.partition) })
	return ahead, err
}

// state is what readiness shows.
func (w *aheadWatch) state(context.Context) admin.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ahead) == 0 {
		return admin.Health{State: admin.Ready}
	}
	details := make([]string, len(w.ahead))
	for i, a := range w.ahead {
		details[i] = a.String()
	}
	return admin.Health{State: admin.Unhandled, Detail: strings.Join(details, "; ")}
}
