package kafkaclient

import (
	"context"
	"errors"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// position says where to read each assigned partition from, and how carefully its records are to be handled.
//
// Left to the client, an assignment whose committed offsets are asked for in the moment in which the group's coordinator
// moves stays unread until the process is restarted (librdkafka 2.14, confluentinc/librdkafka#5586). So it is asked for here,
// again and again; rebalances wait for it, heartbeats do not.
func (c *Consumer) position(ctx context.Context, client *kafka.Consumer, tps []kafka.TopicPartition) (at []kafka.TopicPartition, careful map[int32]int64) {
	if len(tps) == 0 {
		return tps, nil
	}
	ctx, cancel := context.WithTimeout(ctx, positionTimeout)
	defer cancel()
	for {
		committed, err := client.Committed(tps, int(inspectTimeout.Milliseconds()))
		if err == nil {
			careful = c.inspect(client, committed)
			for i := range committed {
				if committed[i].Offset < 0 { // nothing was ever committed: the group begins with the earliest record
					committed[i].Offset = kafka.OffsetBeginning
				}
			}
			return committed, careful
		}
		c.noteError(kafkaError(err))
		select {
		case <-ctx.Done():
			c.cfg.Log.Error("committed offsets not read, the client tries for itself", "topic", c.cfg.Topic, "error", err)
			return tps, nil
		case <-time.After(positionAgain):
		}
	}
}

const (
	inspectTimeout  = 5 * time.Second // of one question
	positionTimeout = 30 * time.Second
	positionAgain   = 100 * time.Millisecond
)

func kafkaError(err error) kafka.Error {
	if ke, ok := errors.AsType[kafka.Error](err); ok {
		return ke
	}
	return kafka.NewError(kafka.ErrFail, err.Error(), false)
}

// inspect looks at where each partition begins: whether records were deleted before they were handled (hazard H12), and
// how carefully its records are to be handled. Without an answer the assignment begins like any other.
func (c *Consumer) inspect(client *kafka.Consumer, committed []kafka.TopicPartition) (careful map[int32]int64) {
	careful = map[int32]int64{}
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	var err error
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
