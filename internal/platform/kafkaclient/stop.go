package kafkaclient

import (
	"context"
	"fmt"
	"time"
)

// followStop makes a stop known wherever the poll loop is at that moment, in a revocation say: from then on nothing is
// taken up, and all handlers together have the drain time.
func (c *Consumer) followStop(ctx context.Context) (unfollow func()) {
	draining, drained := context.WithCancel(context.WithoutCancel(ctx))
	c.draining = draining
	stop := context.AfterFunc(ctx, func() {
		c.each(func(p *partition) { p.quit() })
		time.AfterFunc(c.cfg.Drain, func() {
			drained()
			c.each(func(p *partition) { p.cut() })
		})
	})
	return func() { stop(); drained() }
}

func (c *Consumer) each(do func(*partition)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.parts {
		do(p)
	}
}

// shutDown ends the consumer within the drain time and a little: handlers, offsets, group.
func (c *Consumer) shutDown() error {
	var all []*partition
	c.each(func(p *partition) { all = append(all, p) })
	left := c.stopping(all)
	c.loops.Wait() // they use the client; their last question is bounded
	c.store(context.Background())
	if left == 0 {
		c.endWell(all)
	}
	closed := make(chan error, 1)
	go func() { closed <- c.client.Close() }() // can block without a broker, and while a rebalance waits for others
	enough := make(chan struct{})
	forget := context.AfterFunc(c.draining, func() { time.AfterFunc(closeWait, func() { close(enough) }) })
	defer forget()
	select {
	case err := <-closed:
		if err != nil {
			return fmt.Errorf("close the consumer of %s: %w", c.cfg.Topic, err)
		}
	case <-enough: // what draining has left, and closeWait
		return fmt.Errorf("the consumer of %s did not leave its group in time; what was not committed is redelivered", c.cfg.Topic)
	}
	if left > 0 {
		return fmt.Errorf("%d partitions of %s had handlers running after the cut; their messages are redelivered", left, c.cfg.Topic)
	}
	return nil
}

// stopping gives up what waits in the partitions and returns when their handlers have ended: by themselves within the
// drain time, else cut. A stop in the middle does not give them more. It reports how many were still running after the cut.
func (c *Consumer) stopping(ps []*partition) int {
	c.mu.Lock()
	var busy []chan struct{}
	for _, p := range ps {
		p.quit()
		for it, timer := range p.parked {
			timer.Stop()
			delete(p.parked, it)
		}
		if p.running > 0 {
			p.idle = make(chan struct{})
			busy = append(busy, p.idle)
		}
	}
	c.mu.Unlock()

	drain, cancel := context.WithTimeout(c.draining, c.cfg.Drain)
	defer cancel()
	left := waitAll(drain, busy)
	if left == 0 {
		return 0
	}
	for _, p := range ps {
		p.cut()
	}
	afterCut, cancel := context.WithTimeout(context.Background(), cutWait)
	defer cancel()
	return waitAll(afterCut, busy)
}

// cutWait is how long a handler may take to store what it knows after its context was cancelled.
const cutWait = 2 * time.Second

func waitAll(ctx context.Context, all []chan struct{}) (left int) {
	for i, ch := range all {
		select {
		case <-ch:
		case <-ctx.Done():
			return len(all) - i
		}
	}
	return 0
}
