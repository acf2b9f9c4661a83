package kafkaclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// unplaced is the pause of a partition that is ours while nobody can tell where it begins.
const unplaced = "unplaced"

// assign begins partitions where their group left off, which is asked for here: left to the client, a partition whose
// question falls into a move of the group's coordinator stays unread (docs/adr/0010).
//
// While the coordinator does not tell, the partitions are ours but wait, and placeLoop asks on. Nothing waits for that:
// not the other partitions, not a rebalance, not a stop. They begin nowhere else in the meantime. From the earliest
// record all would be handled again, from the latest orders would be lost.
func (c *Consumer) assign(ctx context.Context, tps []kafka.TopicPartition) error {
	ps := c.assigned(tps)
	failed := c.place(ctx, ps, assignPatience)
	if failed != nil && ctx.Err() == nil { // else nobody will wait
		c.cfg.Log.Warn("committed offsets not read yet, the partitions wait for them", "topic", c.cfg.Topic, "error", failed)
	}
	at, waiting, ready := c.begins(ps, failed == nil)
	if failed != nil {
		signal(c.placing)
	}
	if err := c.client.IncrementalAssign(at); err != nil {
		return err
	}
	if err := c.client.Pause(waiting); err != nil {
		return err
	}
	return c.client.Resume(ready) // a pause outlives a revocation in the client
}

// begins tells where the client is to begin partitions, and which of them wait: those whose place nobody knows, and those
// with an epoch, which settle seeks to. The client compares epochs at a seek, not at an assignment. A seek to a logical
// offset is no way to begin: the client may go back to it later.
func (c *Consumer) begins(ps []*partition, placed bool) (at, waiting, ready []kafka.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range ps {
		tp := c.tp(p.id, p.from)
		if !placed {
			tp.Offset = kafka.OffsetBeginning // anything but the client's own question: nothing is taken from there
		}
		if at = append(at, tp); placed && p.epoch == noEpoch {
			ready = append(ready, tp)
			continue
		}
		p.paused = unplaced
		waiting = append(waiting, tp)
	}
	return at, waiting, ready
}

// How long one assignment holds the poll loop up at most, here and in inspect, is far below ParseExtra's least
// max.poll.interval.ms, and leaves a stop its time.
const (
	assignPatience = 2 * time.Second
	placePatience  = 5 * time.Second
	placeAgain     = 200 * time.Millisecond
)

// placeLoop asks until every partition has its place. The poll loop then begins them, see resume.
func (c *Consumer) placeLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.placing:
		}
		var ps []*partition
		c.each(func(p *partition) {
			if p.paused == unplaced && p.from == kafka.OffsetInvalid {
				ps = append(ps, p)
			}
		})
		if err := c.place(ctx, ps, placePatience); err != nil {
			signal(c.placing)
		} else if len(ps) > 0 {
			c.cfg.Log.Info("committed offsets read", "topic", c.cfg.Topic, "partitions", len(ps))
		}
	}
}

// place finds out where the partitions begin.
func (c *Consumer) place(ctx context.Context, ps []*partition, patience time.Duration) error {
	if len(ps) == 0 {
		return nil
	}
	committed, known, err := c.committed(ctx, ps, patience)
	if err != nil {
		return err
	}
	outsets := c.inspect(ctx, committed)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range ps {
		p.from, p.epoch = committed[i].Offset, epochOf(committed[i])
		p.taken, p.again = known[p.id].taken, known[p.id].again
		if o, known := outsets[p.id]; known {
			p.began, p.careful = o.began, o.careful
		}
	}
	return nil
}

// record is what our books know of a partition.
type record struct {
	taken int64 // up to here it was taken; 0: nothing is known
	again int64 // below this offset records may have been handled, and are not in the books
}

// committed asks for the group's offsets, and for what our books know, again and again until the patience ends.
func (c *Consumer) committed(ctx context.Context, ps []*partition, patience time.Duration) (at []kafka.TopicPartition, known map[int32]record, err error) {
	tps := make([]kafka.TopicPartition, len(ps))
	for i, p := range ps {
		tps[i] = c.tp(p.id, kafka.OffsetInvalid)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = ctx.Err()
	for ctx.Err() == nil {
		if at, err = c.askCommitted(tps, millis(ctx, patience)); err == nil {
			if known, err = c.setBack(ctx, at); err == nil {
				return at, known, nil
			}
		}
		c.noteError(kafkaError(err))
		select {
		case <-ctx.Done():
		case <-time.After(placeAgain):
		}
	}
	return nil, nil, err
}

// setBack lets partitions begin where our books end, if that is below what the group has committed: the books were restored
// to an earlier state, or somebody else has committed (hazard H27).
func (c *Consumer) setBack(ctx context.Context, at []kafka.TopicPartition) (all map[int32]record, err error) {
	if c.cfg.Taken == nil {
		return nil, nil
	}
	taken, err := c.cfg.Taken(ctx, c.cfg.Topic)
	if err != nil {
		return nil, fmt.Errorf("read what was taken: %w", err)
	}
	all = map[int32]record{}
	for i, tp := range at {
		next, known := taken[tp.Partition]
		all[tp.Partition] = record{taken: next}
		if tp.Offset <= 0 || known && next >= int64(tp.Offset) {
			continue
		}
		// Behind the committed offset as many may have been under way, and are forgotten, too (torture, seed 50022).
		all[tp.Partition] = record{next, int64(tp.Offset) + int64(c.cfg.Window)}
		if at[i].Offset = kafka.Offset(next); !known {
			at[i].Offset, at[i].LeaderEpoch = kafka.OffsetBeginning, nil
		}
		c.cfg.Log.Error("the database knows of fewer records than the group has committed, as one does that was restored, or another program has committed: reading begins where it ends",
			"topic", c.cfg.Topic, "partition", tp.Partition, "from", next, "committed", int64(tp.Offset))
	}
	return all, nil
}

// askCommitted asks once. Where nothing was ever committed the group begins with the earliest record; an offset that could
// not be read is another matter.
func (c *Consumer) askCommitted(tps []kafka.TopicPartition, ms int) ([]kafka.TopicPartition, error) {
	committed, err := c.client.Committed(tps, ms)
	if err != nil {
		return nil, err
	}
	for i, tp := range committed {
		if tp.Error != nil {
			return nil, fmt.Errorf("committed offset of partition %d: %w", tp.Partition, tp.Error)
		}
		if tp.Offset < 0 {
			committed[i].Offset = kafka.OffsetBeginning
		}
	}
	return committed, nil
}

func kafkaError(err error) kafka.Error {
	if ke, ok := errors.AsType[kafka.Error](err); ok {
		return ke
	}
	return kafka.NewError(kafka.ErrFail, err.Error(), false)
}

// millis is what a question to the client may take, which does not know contexts.
func millis(ctx context.Context, most time.Duration) int {
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline))
	}
	return int(max(time.Millisecond, most).Milliseconds())
}
