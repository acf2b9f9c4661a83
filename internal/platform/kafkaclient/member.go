package kafkaclient

import (
	"context"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// join subscribes to the topic: the client joins the group in the background.
func (c *Consumer) join(ctx context.Context) error {
	c.mu.Lock()
	c.bare = time.Now()
	c.mu.Unlock()
	err := c.client.Subscribe(c.cfg.Topic, func(_ *kafka.Consumer, ev kafka.Event) error {
		if err := c.rebalance(ctx, ev); err != nil { // the client drops what is returned
			c.cfg.Log.Error("rebalance", "topic", c.cfg.Topic, "error", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", c.cfg.Topic, err)
	}
	return nil
}

// memberLoop notices that the group gives us no partition though it should, and joins it anew.
//
// The client makes such groups (torture, seed 9314; docs/adr/0010): a topic is new, and not every broker knows it. A member
// that joins meanwhile subscribes to nothing; a leader that asks such a broker assigns nothing. When the client hears of the
// topic from another broker first, it sees no change later: the group is stable, and nobody reads the topic until
// somebody joins or leaves.
func (c *Consumer) memberLoop(ctx context.Context) {
	tick := time.NewTicker(c.cfg.Stall / 3)
	defer tick.Stop()
	var standing time.Time // by, when it was last found so
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		bare := c.bare
		c.mu.Unlock()
		if bare.IsZero() || time.Since(bare) < c.cfg.Stall/3 || time.Since(standing) < c.cfg.Stall {
			continue
		}
		owed, moving, err := c.owedByGroup(ctx)
		if ctx.Err() != nil {
			return
		}
		if !owed {
			standing = time.Now()
		}
		c.noteOutside(bare, owed, owed && !moving && err == nil, err)
	}
}

// noteOutside has the poll loop join the group anew, unless that would help nobody: the brokers do not answer, or all members
// are being asked to join already. What lasts for Stall is told.
func (c *Consumer) noteOutside(bare time.Time, owed, rejoin bool, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.bare.Equal(bare) { // it has partitions, or had some meanwhile
		return
	}
	if !owed {
		c.outside = time.Time{}
		return
	}
	c.rejoin = rejoin
	if time.Since(bare) < c.cfg.Stall { // it may be on its way
		return
	}
	if !c.outside.IsZero() && time.Since(c.outsideTold) < c.cfg.Stall {
		return
	}
	c.outside, c.outsideTold = bare, time.Now()
	attrs := []any{"topic", c.cfg.Topic, "group", c.cfg.Group, "for", time.Since(bare).Round(time.Second).String(), "joins_again", rejoin}
	if cause != nil {
		attrs = append(attrs, "error", cause)
	}
	c.cfg.Log.Warn("consumer has not joined its group", attrs...)
}

// owedByGroup reports whether the group owes us a partition: it does while there are as many as members, or while nobody
// can tell. moving: its members are just asked to join.
func (c *Consumer) owedByGroup(ctx context.Context) (owed, moving bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, placePatience)
	defer cancel()
	meta, err := c.client.GetMetadata(&c.cfg.Topic, false, millis(ctx, placePatience))
	if err != nil {
		return true, false, err
	}
	admin, err := kafka.NewAdminClientFromConsumer(c.client)
	if err != nil {
		return true, false, err
	}
	defer admin.Close() // the client itself stays
	groups, err := admin.DescribeConsumerGroups(ctx, []string{c.cfg.Group})
	if err != nil {
		return true, false, err
	}
	g := groups.ConsumerGroupDescriptions[0]
	if g.Error.Code() != kafka.ErrNoError {
		return true, false, g.Error
	}
	moving = g.State == kafka.ConsumerGroupStatePreparingRebalance || g.State == kafka.ConsumerGroupStateCompletingRebalance
	return len(g.Members) <= len(meta.Topics[c.cfg.Topic].Partitions), moving, nil
}

// joinAgain leaves the group and joins it with what the client knows now. There is nothing that could be lost: it has no
// partition.
func (c *Consumer) joinAgain(ctx context.Context) error {
	c.mu.Lock()
	rejoin := c.rejoin && len(c.parts) == 0
	c.rejoin = false
	bare := c.bare
	c.mu.Unlock()
	if !rejoin {
		return nil
	}
	if err := c.client.Unsubscribe(); err != nil {
		return fmt.Errorf("leave group %s: %w", c.cfg.Group, err)
	}
	err := c.join(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parts) == 0 {
		c.bare = bare
	}
	return err
}

// Outside is how long the group has owed this consumer partitions; 0: it has some, or there are more members than partitions.
func (c *Consumer) Outside() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outside.IsZero() {
		return 0
	}
	return time.Since(c.outside)
}
