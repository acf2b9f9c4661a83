package e2e

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/testkit"
)

// tail reads along what the service publishes.
type tail struct {
	mu      sync.Mutex
	records map[string][]*kgo.Record // by topic, as they came
}

func newTail(t *testing.T, kafka *testkit.Cluster, topics ...string) *tail {
	t.Helper()
	client, err := kgo.NewClient(append(kafka.Client.Opts(), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	require.NoError(t, err)
	tl := &tail{records: map[string][]*kgo.Record{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			tl.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) { tl.records[r.Topic] = append(tl.records[r.Topic], r) })
			tl.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		client.Close()
	})
	return tl
}

// of are the records of the topic with this key.
func (tl *tail) of(topic, key string) (found []*kgo.Record) {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	for _, r := range tl.records[topic] {
		if string(r.Key) == key {
			found = append(found, r)
		}
	}
	return found
}

// all are the records of the topic.
func (tl *tail) all(topic string) []*kgo.Record {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	return append([]*kgo.Record{}, tl.records[topic]...)
}

// awaitOne waits for the first record of the order in the topic.
func (w *world) awaitOne(topic string, o order) *kgo.Record {
	w.t.Helper()
	w.await(func() bool { return len(w.tail.of(topic, o.id.String())) > 0 }, "order %s in %s", o.id, topic)
	return w.tail.of(topic, o.id.String())[0]
}

// nowhere checks that no record at all is in the retry topics and the dead letters.
func (w *world) nowhere() {
	w.t.Helper()
	for _, topic := range append([]string{w.dlq}, w.tiers...) {
		require.Zero(w.t, w.kafka.Count(topic), "records in %s", topic)
	}
}
