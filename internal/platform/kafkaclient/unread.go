package kafkaclient

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/google/uuid"
)

// unreadPatience bounds one look into partitions whose ends hold no records.
const unreadPatience = 10 * time.Second

// Unread counts, by partition, what a topic holds from the given offsets on; a partition that is missing in from counts from
// its beginning. Offsets that are no records (transaction markers, aborted or compacted records) count as well, unless
// nothing else is there: then the partition is missing in the answer, as one is that has nothing.
func (r *Reader) Unread(ctx context.Context, topic string, from map[int32]int64) (map[int32]int64, error) {
	ends, err := r.Ends(ctx, topic)
	if err != nil {
		return nil, err
	}
	starts, err := r.Starts(ctx, topic)
	if err != nil {
		return nil, err
	}
	unread, begin := map[int32]int64{}, map[int32]int64{}
	for p, end := range ends {
		if at := max(from[p], starts[p]); end > at {
			unread[p], begin[p] = end-at, at
		}
	}
	if len(unread) == 0 {
		return unread, nil
	}
	empty, err := r.withoutRecords(ctx, topic, begin)
	maps.DeleteFunc(unread, func(p int32, _ int64) bool { return empty[p] })
	return unread, err
}

// withoutRecords reads each partition up to its first record or its end, and tells those that have none.
func (r *Reader) withoutRecords(ctx context.Context, topic string, begin map[int32]int64) (map[int32]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, unreadPatience)
	defer cancel()
	client, err := kafka.NewConsumer(r.cfg.with(kafka.ConfigMap{
		"group.id":                   "unused-" + uuid.NewString(), // the client wants one; nothing is committed to it
		"enable.auto.commit":         false,
		"enable.auto.offset.store":   false,
		"auto.offset.reset":          "earliest",
		"isolation.level":            "read_committed",
		"enable.partition.eof":       true,
		"queued.max.messages.kbytes": 1024,
	}))
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", topic, err)
	}
	defer letGo(func() { _ = client.Close() }) // it owns no group: nothing is lost
	var tps []kafka.TopicPartition
	for p, offset := range begin {
		tps = append(tps, kafka.TopicPartition{Topic: &topic, Partition: p, Offset: kafka.Offset(offset)})
	}
	if err := client.Assign(tps); err != nil {
		return nil, fmt.Errorf("look into %s: %w", topic, err)
	}
	empty, seen := map[int32]bool{}, map[int32]bool{}
	for len(seen) < len(begin) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("look into %s: %w", topic, err)
		}
		switch e := client.Poll(int(pollWait.Milliseconds())).(type) {
		case *kafka.Message:
			seen[e.TopicPartition.Partition] = true
		case kafka.PartitionEOF:
			if !seen[e.Partition] {
				seen[e.Partition], empty[e.Partition] = true, true
			}
		case kafka.Error:
			if e.IsFatal() {
				return nil, fmt.Errorf("look into %s: %w", topic, e)
			}
		}
	}
	return empty, nil
}
