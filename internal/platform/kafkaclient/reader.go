package kafkaclient

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/google/uuid"
)

// Reader reads topics by offset, outside of any consumer group: it commits nothing and disturbs no consumer.
type Reader struct {
	*Admin
	cfg Config
	log *slog.Logger
}

// NewReader makes a reader.
func NewReader(cfg Config, log *slog.Logger) (*Reader, error) {
	admin, err := NewAdmin(cfg)
	if err != nil {
		return nil, err
	}
	return &Reader{Admin: admin, cfg: cfg, log: log}, nil
}

// ReadFrom calls fn for each record from the given offsets on, until ctx is done or a function fails. A partition that is
// missing in from is not read. Whenever a partition is read to its end, atEnd gets the offset that its next record will
// have at least: the last offsets need not be records (markers of transactions, records that were purged or compacted).
func (r *Reader) ReadFrom(
	ctx context.Context, topic string, from map[int32]int64, fn func(Message) error, atEnd func(partition int32, next int64) error,
) error {
	client, err := r.assign(topic, from)
	if err != nil {
		return err
	}
	defer letGo(func() { _ = client.Close() }) // it owns no group: nothing is lost
	var last kafka.ErrorCode
	var lastAt time.Time
	for ctx.Err() == nil {
		switch e := client.Poll(int(pollWait.Milliseconds())).(type) {
		case *kafka.Message:
			if err := fn(fromKafka(e, topic)); err != nil {
				return err
			}
		case kafka.PartitionEOF:
			if err := atEnd(e.Partition, int64(e.Offset)); err != nil {
				return err
			}
		case kafka.Error:
			if e.IsFatal() {
				return fmt.Errorf("read %s: %w", topic, e)
			}
			if e.Code() != last || time.Since(lastAt) > 10*time.Second {
				last, lastAt = e.Code(), time.Now()
				r.log.Warn("kafka reader", "topic", topic, "error", e.Error())
			}
		}
	}
	return ctx.Err()
}

func (r *Reader) assign(topic string, from map[int32]int64) (*kafka.Consumer, error) {
	client, err := kafka.NewConsumer(r.cfg.with(kafka.ConfigMap{
		"group.id":                   "unused-" + uuid.NewString(), // the client wants one; nothing is committed to it
		"enable.auto.commit":         false,
		"enable.auto.offset.store":   false,
		"enable.partition.eof":       true,
		"auto.offset.reset":          "earliest",
		"isolation.level":            "read_committed",
		"fetch.queue.backoff.ms":     5,
		"queued.max.messages.kbytes": 4096,
	}))
	if err != nil {
		return nil, fmt.Errorf("reader of %s: %w", topic, err)
	}
	var tps []kafka.TopicPartition
	for p, offset := range from {
		tps = append(tps, kafka.TopicPartition{Topic: &topic, Partition: p, Offset: kafka.Offset(offset)})
	}
	if err := client.Assign(tps); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("reader of %s: %w", topic, err)
	}
	return client, nil
}
