package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/platform/kafkaclient"
)

// world of offsets, all of partition 0 of one topic.
type offsetWorld struct {
	start, committed, taken int64 // taken below 0: the books know nothing of the partition
	kept                    time.Duration
	order                   []string
	only                    string // the topic that has commits; empty: each
}

func (w *offsetWorld) Starts(context.Context, string) (map[int32]int64, error) {
	return map[int32]int64{0: w.start}, nil
}

func (w *offsetWorld) Committed(_ context.Context, _, topic string, _ int) (map[int32]int64, error) {
	w.order = append(w.order, "committed")
	if w.committed < 0 || w.only != "" && w.only != topic {
		return map[int32]int64{}, nil
	}
	return map[int32]int64{0: w.committed}, nil
}

// Readers may be refused: it takes another right than the rest.
func (*offsetWorld) Readers(context.Context, string, string) (map[int32]string, error) {
	return nil, errors.New("not authorized to describe the group")
}

func (w *offsetWorld) Taken(context.Context, uuid.UUID) (map[int32]int64, error) {
	w.order = append(w.order, "taken")
	if w.taken < 0 {
		return map[int32]int64{}, nil
	}
	return map[int32]int64{0: w.taken}, nil
}

func (w *offsetWorld) TakenFor(context.Context, uuid.UUID) (time.Duration, error) { return w.kept, nil }

func TestOffsetsThatNobodyTookAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		world offsetWorld
		topic string
		red   string // of the detail; empty: all is well
	}{
		"as we commit":                                {offsetWorld{committed: 50, taken: 50}, "orders", ""},
		"taken, and not committed yet":                {offsetWorld{committed: 50, taken: 80}, "orders", ""},
		"a lost partition's commit comes late":        {offsetWorld{committed: 20, taken: 80}, "orders", ""},
		"nothing was ever committed":                  {offsetWorld{committed: -1, taken: -1}, "orders", ""},
		"set to the beginning":                        {offsetWorld{committed: 0, taken: 50}, "orders", ""},
		"accepted: rewound to what the topic holds":   {offsetWorld{start: 30, committed: 30, taken: -1}, "orders", ""},
		"another program":                             {offsetWorld{committed: 51, taken: 50}, "orders", "our books know only up to"},
		"another program, in a partition that is new": {offsetWorld{committed: 1, taken: -1}, "orders", "our books know only up to"},
		"another program, in a retry topic":           {offsetWorld{committed: 51, taken: 50, kept: 2 * time.Hour}, "orders.retry-5s", "our books know only up to"},
		"an instance that keeps no books of retry topics, in a rolling upgrade": {offsetWorld{committed: 51, taken: 50, kept: time.Minute}, "orders.retry-5s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			w := &aheadWatch{
				consumers: []kafkaclient.ConsumerConfig{{Topic: "orders", Group: "group"}}, brokers: &c.world, books: &c.world, topics: topicIDs{},
				log: slog.New(slog.NewJSONHandler(&log, nil)),
			}
			if c.topic != "orders" {
				w.consumers = append(w.consumers, kafkaclient.ConsumerConfig{Topic: c.topic, Group: "group-retry-5s"})
				c.world.only = c.topic
			}
			w.refresh(t.Context())
			require.Equal(t, []string{"committed", "taken"}, c.world.order[:2], "in the other order than our instances write")
			h := w.state(t.Context())
			if c.red == "" {
				require.Equal(t, admin.Health{State: admin.Ready}, h)
				require.Empty(t, log.String())
				return
			}
			require.Equal(t, admin.Unhandled, h.State)
			require.Contains(t, h.Detail, c.red)
			w.refresh(t.Context())
			require.Equal(t, 1, strings.Count(log.String(), `"level":"ERROR"`), "told once")
			c.world.taken = c.world.committed
			w.refresh(t.Context())
			require.Equal(t, admin.Ready, w.state(t.Context()).State)
		})
	}
}
