package kafkaclient

import (
	"context"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const (
	inspectPatience = 5 * time.Second // for all partitions of an assignment
	endPatience     = time.Second     // for one question about a partition's ends
)

// outset is how an assignment of a partition begins.
type outset struct {
	began   int64 // as it was noted
	careful int64 // records below this offset are handled one at a time
}

// inspect looks at where each partition begins: how carefully its records are to be handled. Without an answer the assignment begins like any other.
func (c *Consumer) inspect(ctx context.Context, committed []kafka.TopicPartition) map[int32]outset {
	outsets := map[int32]outset{}
	ctx, cancel := context.WithTimeout(ctx, inspectPatience)
	defer cancel()
	var err error
	for _, tp := range committed {
		if err == nil {
			err = c.inspectOne(ctx, tp, outsets)
		}
	}
	if err != nil {
		c.cfg.Log.Warn("assignment begins without its history", "topic", c.cfg.Topic, "error", err)
	}
	return outsets
}

func (c *Consumer) inspectOne(ctx context.Context, tp kafka.TopicPartition, outsets map[int32]outset) error {
	if c.cfg.Careful == nil {
		return nil
	}
	begin := max(0, int64(tp.Offset))
	until, err := c.cfg.Careful(ctx, c.cfg.Topic, tp.Partition, begin)
	if err != nil {
		return err
	}
	outsets[tp.Partition] = outset{began: begin}
	if until <= begin {
		return nil
	}
	if _, end, err := c.ends(ctx, tp.Partition); err == nil {
		until = min(until, end) // what comes later has killed nobody yet
	}
	if until <= begin {
		return nil
	}
	outsets[tp.Partition] = outset{began: begin, careful: until}
	c.cfg.Log.Warn("partition begins where the last assignments began that did not end well: its records are handled one at a time", "topic", c.cfg.Topic, "partition", tp.Partition, "until", until)
	return nil
}

// endWell takes back what Careful was told of assignments that end now: this process has outlived them (hazard H33).
func (c *Consumer) endWell(ps []*partition) {
	if c.cfg.EndedWell == nil {
		return
	}
	began := map[int32]int64{}
	c.mu.Lock()
	for _, p := range ps {
		if p.began >= 0 {
			began[p.id] = p.began
			p.began = -1 // once
		}
	}
	c.mu.Unlock()
	if len(began) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := c.cfg.EndedWell(ctx, c.cfg.Topic, began); err != nil {
		c.cfg.Log.Warn("good end of an assignment not noted, it counts as a crash", "topic", c.cfg.Topic, "partitions", len(began), "error", err)
	}
}

// ends asks for the first record of a partition that is there, and the offset after the last that may be read.
func (c *Consumer) ends(ctx context.Context, partition int32) (low, end int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	return c.client.QueryWatermarkOffsets(c.cfg.Topic, partition, millis(ctx, endPatience))
}
