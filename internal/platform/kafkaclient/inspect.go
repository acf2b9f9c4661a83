package kafkaclient

import (
	"context"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// inspectTimeout bounds the questions of an assignment; without an answer it begins like any other.
const inspectTimeout = 5 * time.Second

// inspect looks at where each partition begins: whether records were deleted before they were handled (hazard H12), and
// how carefully its records are to be handled.
func (c *Consumer) inspect(client *kafka.Consumer, tps []kafka.TopicPartition) (careful map[int32]int64) {
	careful = map[int32]int64{}
	if len(tps) == 0 {
		return careful
	}
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	committed, err := client.Committed(tps, int(inspectTimeout.Milliseconds()))
	if err != nil {
		c.cfg.Log.Warn("assignment begins without its history", "topic", c.cfg.Topic, "error", err)
		return careful
	}
	for _, tp := range committed {
		if err == nil {
			err = c.inspectOne(ctx, client, tp, careful)
		}
	}
	if err != nil {
		c.cfg.Log.Warn("assignment begins without its history", "topic", c.cfg.Topic, "error", err)
	}
	return careful
}

func (c *Consumer) inspectOne(ctx context.Context, client *kafka.Consumer, tp kafka.TopicPartition, careful map[int32]int64) error {
	if tp.Offset >= 0 {
		low, _, err := client.QueryWatermarkOffsets(c.cfg.Topic, tp.Partition, int(inspectTimeout.Milliseconds()))
		if err != nil {
			return err
		}
		if lost := low - int64(tp.Offset); lost > 0 {
			c.cfg.Log.Error("records were deleted by retention before they were handled", "topic", c.cfg.Topic, "partition", tp.Partition, "from", int64(tp.Offset), "to", low)
			if c.cfg.Lost != nil {
				c.cfg.Lost(c.cfg.Topic, lost)
			}
		}
	}
	if c.cfg.Careful == nil {
		return nil
	}
	until, err := c.cfg.Careful(ctx, c.cfg.Topic, tp.Partition, max(0, int64(tp.Offset)))
	if careful[tp.Partition] = until; until > 0 {
		c.cfg.Log.Warn("partition begins where the last two assignments began: its records are handled one at a time", "topic", c.cfg.Topic, "partition", tp.Partition, "until", until)
	}
	return err
}
