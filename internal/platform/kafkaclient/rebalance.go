package kafkaclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"example.com/billing/internal/platform/crash"
)

// rebalance runs inside Poll and Close. It assigns and unassigns by itself: left to the client, a failure of that would
// block for ever on a channel that nobody reads.
func (c *Consumer) rebalance(ctx context.Context, ev kafka.Event) error {
	switch e := ev.(type) {
	case kafka.AssignedPartitions:
		if err := c.assign(ctx, e.Partitions); err != nil {
			return fmt.Errorf("assign: %w", err)
		}
	case kafka.RevokedPartitions:
		c.revoked(e.Partitions, c.client.AssignmentLost())
		if err := c.client.IncrementalUnassign(e.Partitions); err != nil {
			return fmt.Errorf("unassign: %w", err)
		}
	}
	return nil
}

func (c *Consumer) assigned(tps []kafka.TopicPartition) []*partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	ps := make([]*partition, 0, len(tps))
	ids := make([]int32, 0, len(tps))
	for _, tp := range tps {
		p := newPartition(tp.Partition)
		c.parts[p.id] = p
		ps, ids = append(ps, p), append(ids, p.id)
	}
	if len(ps) > 0 {
		c.bare, c.outside = time.Time{}, time.Time{}
	}
	c.full = false // the new ones are not paused; the others follow at the next resume
	c.cfg.Log.Info("partitions assigned", "topic", c.cfg.Topic, "partitions", ids)
	return ps
}

// revoked hands partitions over: nothing new is taken up, handlers end, offsets are stored (the client commits them when
// they are unassigned). A lost partition already belongs to another instance: its handlers are cut, nothing is stored.
func (c *Consumer) revoked(tps []kafka.TopicPartition, lost bool) {
	ps, ids := c.partitionsOf(tps)
	c.cfg.Log.Info("partitions revoked", "topic", c.cfg.Topic, "partitions", ids, "lost", lost)
	if lost {
		for _, p := range ps {
			p.cut()
		}
	}
	left := c.stopping(ps)
	if left > 0 {
		c.cfg.Log.Warn("handlers still running after the cut; their messages are redelivered", "topic", c.cfg.Topic, "partitions", left)
	}
	if !lost {
		c.store(context.Background())
	}
	if left == 0 {
		c.endWell(ps)
	}
	c.forget(ps)
}

func (c *Consumer) partitionsOf(tps []kafka.TopicPartition) ([]*partition, []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ps []*partition
	var ids []int32
	for _, tp := range tps {
		if p := c.parts[tp.Partition]; p != nil {
			ps, ids = append(ps, p), append(ids, p.id)
		}
	}
	return ps, ids
}

// forget fences the assignment: results that come later are dropped.
func (c *Consumer) forget(ps []*partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range ps {
		p.gone = true
		p.quit()
		p.cut()
		c.unfinished -= p.unfinished
		c.bytes -= p.bytes
		if c.parts[p.id] == p {
			delete(c.parts, p.id)
		}
	}
	if len(c.parts) == 0 && c.bare.IsZero() {
		c.bare = time.Now()
	}
}

// storeInterval gathers finished offsets before they are stored; the client commits what is stored once a second.
const (
	storeInterval = 250 * time.Millisecond
	storeTimeout  = time.Second
)

// storeLoop sleeps while nothing is finished.
func (c *Consumer) storeLoop(ctx context.Context) {
	gather := time.NewTimer(0)
	defer gather.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.finished:
		}
		gather.Reset(storeInterval)
		select {
		case <-ctx.Done():
			return
		case <-gather.C:
			c.store(ctx)
		}
	}
}

// store moves the stored offsets to the first unfinished record of each partition, after Progress has noted the ranges.
// A range that could not be noted is offered again with the next one. Records that were deleted below it are told before.
func (c *Consumer) store(ctx context.Context) {
	c.storing.Lock()
	defer c.storing.Unlock()
	c.collect()
	untold := c.tellDeleted(ctx)
	if len(untold) > 0 {
		signal(c.finished) // and told again
	}
	ps := make([]Progress, 0, len(c.ranges))
	for p, r := range c.ranges {
		if !untold[p] {
			ps = append(ps, r)
		}
	}
	if len(ps) == 0 {
		return
	}
	if c.cfg.Progress != nil {
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		err := c.cfg.Progress(bounded, ps)
		cancel()
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				c.cfg.Log.Warn("progress not noted, offsets stay", "topic", c.cfg.Topic, "error", err)
			}
			signal(c.finished) // and offered again
			return
		}
	}
	crash.At(crash.BeforeStoreOffset)
	c.storeOffsets(untold)
	crash.At(crash.BeforeCommit)
}

// collect joins what was finished since with what could not be noted yet.
func (c *Consumer) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.ranges {
		if p.gone {
			delete(c.ranges, p)
		}
	}
	for _, p := range c.parts {
		more, ok := p.tracker.advance()
		if tail := p.tail(); tail > 0 {
			more.Next, more.epoch, ok = tail, p.epoch, true // what follows the record is no record
		}
		if !ok {
			continue
		}
		more.Partition, p.stored = p.id, more.Next
		if r, pending := c.ranges[p]; pending {
			more.Runs = append(r.Runs, more.Runs...)
		}
		c.ranges[p] = more
	}
}

func (c *Consumer) storeOffsets(but map[*partition]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var tps []kafka.TopicPartition
	for p, r := range c.ranges {
		if but[p] {
			continue
		}
		if delete(c.ranges, p); !p.gone {
			tps = append(tps, c.tpAfter(p.id, kafka.Offset(r.Next), r.epoch))
		}
	}
	if len(tps) == 0 {
		return
	}
	if _, err := c.client.StoreOffsets(tps); err != nil && !isCode(err, kafka.ErrState) { // ErrState: no longer ours
		c.cfg.Log.Error("store offsets", "topic", c.cfg.Topic, "error", err)
	}
}
