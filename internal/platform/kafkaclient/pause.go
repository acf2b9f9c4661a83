package kafkaclient

import (
	"context"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// roomWait is how long the poll loop waits for room before it pauses. Pausing throws away what was fetched, so it is for
// waits that last, not for routine back-pressure.
const roomWait = 300 * time.Millisecond

// hasRoom reports whether the window takes a fair number of messages again, not just one. Called with c.mu held.
func (c *Consumer) hasRoom() bool {
	return (c.cfg.Due != nil || c.unfinished <= c.cfg.Window*15/16) && c.bytes <= c.cfg.WindowBytes*3/4
}

func (c *Consumer) isFull() bool {
	return c.cfg.Due == nil && c.unfinished >= c.cfg.Window || c.bytes >= c.cfg.WindowBytes
}

// waitForRoom waits a little for room in the window and reports whether there still is none.
func (c *Consumer) waitForRoom(ctx context.Context) (full bool) {
	c.mu.Lock()
	full = c.isFull()
	already := c.full
	if full {
		select { // a token of earlier says nothing
		case <-c.room:
		default:
		}
	}
	c.mu.Unlock()
	if !full || already {
		return false
	}
	timer := time.NewTimer(roomWait)
	defer timer.Stop()
	select {
	case <-c.room:
		return false
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// pauseAll stops fetching while the loop keeps polling.
func (c *Consumer) pauseAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = true
	for _, p := range c.parts {
		c.pause(p, "full")
	}
}

// pause is remembered here: the client cannot tell what is paused. Called with c.mu held.
func (c *Consumer) pause(p *partition, reason string) {
	if p.paused != "" {
		return
	}
	if err := c.client.Pause([]kafka.TopicPartition{c.tp(p.id, kafka.OffsetInvalid)}); err != nil {
		c.cfg.Log.Error("pause", "topic", c.cfg.Topic, "partition", p.id, "error", err)
		return
	}
	p.paused = reason
}

// resume wakes the partitions that have room again.
func (c *Consumer) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full && c.hasRoom() {
		c.full = false
	}
	if c.full {
		return
	}
	for _, p := range c.parts {
		switch {
		case p.paused == unplaced:
			c.settle(p)
		case p.nudge && p.owing(), p.paused != "" && (c.cfg.Due == nil || p.waiting() <= c.cfg.Window/2):
			c.wake(p)
		}
	}
}

// settle wakes a partition once its place is known, and once the client takes it there: it refuses while the commits of an
// earlier assignment are on their way, and would begin where it was told first.
func (c *Consumer) settle(p *partition) {
	if p.from == kafka.OffsetInvalid {
		return
	}
	if err := c.seek(p); err != nil {
		c.cfg.Log.Debug("seek refused, tried again", "topic", c.cfg.Topic, "partition", p.id, "error", err)
		return
	}
	c.wake(p)
}

// wake resumes and seeks: after a resume alone the client may sleep for another second.
func (c *Consumer) wake(p *partition) {
	if err := c.client.Resume([]kafka.TopicPartition{c.tp(p.id, kafka.OffsetInvalid)}); err != nil {
		c.cfg.Log.Error("resume", "topic", c.cfg.Topic, "partition", p.id, "error", err)
		return
	}
	p.paused, p.nudge = "", false
	if err := c.seek(p); err != nil {
		c.cfg.Log.Error("seek", "topic", c.cfg.Topic, "partition", p.id, "error", err)
	}
}

// seek goes to the first record that was not received. Where that is the first of all, the client begins there as it was
// assigned: it may answer a seek to a logical offset late, and go back there when it has read on.
func (c *Consumer) seek(p *partition) error {
	at := p.from
	if p.next > 0 {
		at = kafka.Offset(p.next)
	}
	if at < 0 {
		return nil
	}
	tps, err := c.client.SeekPartitions([]kafka.TopicPartition{c.tpAfter(p.id, at, p.epoch)})
	if err != nil {
		return err
	}
	return tps[0].Error
}

func (c *Consumer) tp(partition int32, offset kafka.Offset) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: &c.cfg.Topic, Partition: partition, Offset: offset}
}

// PartitionState is what metrics and readiness show of a partition.
type PartitionState struct {
	Partition  int32
	Unfinished int
	Paused     string // the reason; empty: not paused
	Next       int64  // offset after the last received record; 0: none yet
	Stalled    bool   // it owes records and none comes
}

// State lists the assigned partitions.
func (c *Consumer) State() []PartitionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	states := make([]PartitionState, 0, len(c.parts))
	for _, p := range c.parts {
		states = append(states, PartitionState{Partition: p.id, Unfinished: p.unfinished, Paused: p.paused, Next: p.next, Stalled: p.owing()})
	}
	return states
}

// Topic that the consumer reads.
func (c *Consumer) Topic() string { return c.cfg.Topic }
