package kafkaclient

import (
	"context"
	"time"
)

// sight is what the watchdog last saw of a partition.
type sight struct {
	at    int64
	since time.Time
}

// watchLoop is the watchdog: it tells of partitions that owe us records. There are more, none comes, and we have not
// paused them. The client has had faults that look just so, and nothing of itself would say it (docs/adr/0010).
//
// What is there is asked of the brokers, not of the client: a fetcher that never started knows of nothing. That blocks,
// so it is done beside the poll loop, and only for partitions in which nothing has moved.
func (c *Consumer) watchLoop(ctx context.Context) {
	tick := time.NewTicker(c.cfg.Stall / 3)
	defer tick.Stop()
	seen := map[*partition]sight{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			seen = c.look(seen, now)
		}
		for p, s := range seen {
			if time.Since(s.since) < c.cfg.Stall {
				continue
			}
			_, end, err := c.ends(ctx, p.id)
			if err != nil {
				break // a broker is away: the client tells of that
			}
			if seen[p] = (sight{s.at, time.Now()}); end > s.at {
				c.owes(p, s.at, end)
			}
		}
	}
}

// look notes how far the partitions are that we want records of.
func (c *Consumer) look(seen map[*partition]sight, now time.Time) map[*partition]sight {
	next := map[*partition]sight{}
	c.each(func(p *partition) {
		if p.paused != "" {
			return
		}
		s, ok := seen[p]
		if at := p.position(); !ok || s.at != at {
			s = sight{at, now}
		}
		next[p] = s
	})
	return next
}

// owes tells it once for each position, and has the poll loop seek to where the partition is. That is what happens after
// each pause, too: nothing is skipped and nothing received twice, whatever the client was at.
func (c *Consumer) owes(p *partition, at, end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.gone || p.paused != "" || p.position() != at {
		return
	}
	if p.nudge = true; p.stalled == at { // a record that still comes before the poll loop seeks makes it forget that
		return
	}
	p.stalled = at
	c.cfg.Log.Warn("partition owes records, none comes; asked for again", "topic", c.cfg.Topic, "partition", p.id, "offset", at, "end", end, "after", c.cfg.Stall.String())
}

// reached notes that the client has read all there is, past transaction markers and aborted or compacted records, which
// it does not hand over. Without this a partition that ends with such would look like one that owes.
func (c *Consumer) reached(partition int32, end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.parts[partition]; p != nil && p.paused != unplaced {
		c.passed(p, end)
		p.end = max(p.end, end)
		if p.tail() > 0 { // the group's offset follows, or the group would seem to lag
			signal(c.finished)
		}
	}
}

// position is the offset before which nothing is owed. Called with Consumer.mu held, like owing.
func (p *partition) position() int64 { return max(p.next, p.end, int64(p.from)) }

func (p *partition) owing() bool { return p.paused == "" && p.stalled == p.position() }
