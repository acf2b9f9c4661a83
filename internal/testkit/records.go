package testkit

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// CreateTopics makes topics with so many partitions each.
func (c *Cluster) CreateTopics(partitions int32, names ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), Patience)
	defer cancel()
	created, err := c.Admin.CreateTopics(ctx, partitions, 1, nil, names...)
	require.NoError(c.t, err)
	require.NoError(c.t, created.Error())
}

// Produce writes records and returns when the broker has acknowledged them. Partition and offset are then set in them.
func (c *Cluster) Produce(records ...*kgo.Record) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), Patience)
	defer cancel()
	require.NoError(c.t, c.Client.ProduceSync(ctx, records...).FirstErr())
}

// Consume waits for the first n records of a topic and returns them by partition and offset. It belongs to no group. It
// fails when the topic gets fewer, and says nothing about what comes after.
func (c *Cluster) Consume(topic string, n int) []*kgo.Record {
	c.t.Helper()
	consumer, err := kgo.NewClient(append(c.Client.Opts(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	require.NoError(c.t, err)
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), Patience)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := consumer.PollRecords(ctx, n-len(records))
		require.NoErrorf(c.t, fetches.Err(), "%s: wanted %d records, got %d", topic, n, len(records))
		records = append(records, fetches.Records()...)
	}
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return records
}

// All returns what a topic holds now.
func (c *Cluster) All(topic string) []*kgo.Record {
	c.t.Helper()
	return c.Consume(topic, c.Count(topic))
}

// Count is the number of records that a topic holds.
func (c *Cluster) Count(topic string) int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), Patience)
	defer cancel()
	starts, err := c.Admin.ListStartOffsets(ctx, topic)
	require.NoError(c.t, err)
	require.NoError(c.t, starts.Error())
	ends, err := c.Admin.ListEndOffsets(ctx, topic)
	require.NoError(c.t, err)
	require.NoError(c.t, ends.Error())
	count := 0
	for partition, end := range ends[topic] {
		count += int(end.Offset - starts[topic][partition].Offset)
	}
	return count
}

// Committed is what a group has committed on a topic, by partition. Where it has committed nothing there is no entry.
func (c *Cluster) Committed(group, topic string) map[int32]int64 {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), Patience)
	defer cancel()
	committed := map[int32]int64{}
	offsets, err := c.Admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return committed
	}
	require.NoError(c.t, err)
	for partition, offset := range offsets[topic] {
		if offset.At >= 0 {
			committed[partition] = offset.At
		}
	}
	return committed
}

// Header is the one value of a header; a header that is missing or repeated fails the test.
func (c *Cluster) Header(record *kgo.Record, key string) string {
	c.t.Helper()
	var values []string
	for _, h := range record.Headers {
		if h.Key == key {
			values = append(values, string(h.Value))
		}
	}
	require.Lenf(c.t, values, 1, "header %s", key)
	return values[0]
}
