package kafkaclient

import "context"

// maxGaps bounds what is remembered of a partition until its gaps are looked at.
const maxGaps = 64

// gap is a range of offsets that the client has gone past without a record: what is none, or records that retention deleted
// before they were received.
type gap struct{ from, to int64 }

// passed notes the offsets before at that nothing was received of. Called with Consumer.mu held, before the position moves.
func (c *Consumer) passed(p *partition, at int64) {
	from := max(p.position(), p.taken)
	if at <= from || c.cfg.Lost == nil || from == 0 && p.from < 0 { // the last: nothing was ever taken, the topic may be older than the group
		return
	}
	if n := len(p.gaps); n == maxGaps {
		p.gaps[n-1].to = at
	} else {
		p.gaps = append(p.gaps, gap{from, at})
	}
	signal(c.finished) // store looks at it, also when nothing is finished
}

// tellDeleted looks at the gaps of each partition: what lies below its first record was deleted (hazard H12). It returns the
// partitions whose gaps could not be looked at or told: their offsets stay, so that nothing is forgotten.
func (c *Consumer) tellDeleted(ctx context.Context) (untold map[*partition]bool) {
	gaps := map[*partition][]gap{}
	c.each(func(p *partition) {
		if len(p.gaps) > 0 {
			gaps[p], p.gaps = p.gaps, nil
		}
	})
	if len(gaps) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	untold = map[*partition]bool{}
	for p, found := range gaps {
		err := c.tellDeletedOf(ctx, p.id, found)
		if err == nil {
			continue
		}
		c.cfg.Log.Warn("cannot tell whether records were deleted before they were handled, offsets stay", "topic", c.cfg.Topic, "partition", p.id, "error", err)
		untold[p] = true
		c.mu.Lock()
		p.gaps = append(found, p.gaps...)
		c.mu.Unlock()
	}
	return untold
}

func (c *Consumer) tellDeletedOf(ctx context.Context, partition int32, gaps []gap) error {
	low, _, err := c.ends(ctx, partition)
	if err != nil {
		return err
	}
	for _, g := range gaps {
		to := min(g.to, low)
		if to <= g.from {
			continue
		}
		if err := c.cfg.Lost(ctx, c.cfg.Topic, partition, g.from, to); err != nil {
			return err
		}
		c.cfg.Log.Error("records were deleted by retention before they were handled", "topic", c.cfg.Topic, "partition", partition, "from", g.from, "to", to)
	}
	return nil
}
