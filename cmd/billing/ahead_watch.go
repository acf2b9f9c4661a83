package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/telemetry"
)

// offsetBrokers is what the brokers know of offsets: kafkaclient.Admin.
type offsetBrokers interface {
	Starts(ctx context.Context, topic string) (map[int32]int64, error)
	Committed(ctx context.Context, group, topic string, partitions int) (map[int32]int64, error)
	Readers(ctx context.Context, group, topic string) (map[int32]string, error)
}

// offsetBooks is what the database knows of them: pgstore.Store.
type offsetBooks interface {
	Taken(ctx context.Context, topicID uuid.UUID) (map[int32]int64, error)
	TakenFor(ctx context.Context, topicID uuid.UUID) (time.Duration, error)
}

// aheadWatch looks for partitions of which a group has committed more than our books know. An instance of ours notes what it
// has taken before it commits, so somebody else has committed: another program that joined the group by mistake, or a person
// who set offsets forward. A database that was restored looks the same. The orders between have been handled by nobody.
//
// They are read when the partition is assigned to an instance of ours the next time (hazard H27). As long as the other
// program has the partition nothing can be done about it from here: the watch tells a person.
type aheadWatch struct {
	consumers []kafkaclient.ConsumerConfig // topics and groups of this instance; the main topic's is the first
	brokers   offsetBrokers
	books     offsetBooks
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

const (
	aheadEvery = 10 * time.Second // how long this can stay unnoticed
	// An instance of a release that keeps no books of the retry topics may run beside us for so long, in a rolling upgrade. What
	// it commits there looks like another program's, and a red light would stop the upgrade.
	upgradeTakes = time.Hour
)

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

// look compares. The books are asked last: what was committed before is in them by then. What the topic does not hold any
// more nobody can take.
func (w *aheadWatch) look(ctx context.Context, topic, group string) (ahead []aheadOfBooks, err error) {
	starts, err := w.brokers.Starts(ctx, topic)
	if err != nil {
		return nil, err
	}
	committed, err := w.brokers.Committed(ctx, group, topic, len(starts))
	if err != nil {
		return nil, err
	}
	taken, err := w.books.Taken(ctx, w.topics.id(topic))
	if err != nil {
		return nil, err
	}
	for p, next := range committed {
		if from := max(taken[p], starts[p]); next > from {
			ahead = append(ahead, aheadOfBooks{topic: topic, group: group, partition: p, committed: next, taken: from})
		}
	}
	if len(ahead) == 0 {
		return nil, nil
	}
	if topic != w.consumers[0].Topic {
		if kept, err := w.books.TakenFor(ctx, w.topics.id(topic)); err != nil || kept < upgradeTakes {
			return nil, err
		}
	}
	readers, err := w.brokers.Readers(ctx, group, topic)
	if err != nil { // it is told without them
		w.log.Debug("members of the group not read", "group", group, "error", err)
	}
	for i, a := range ahead {
		ahead[i].reader = readers[a.partition]
	}
	slices.SortFunc(ahead, func(a, b aheadOfBooks) int { return int(a.partition - b.partition) })
	return ahead, nil
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
