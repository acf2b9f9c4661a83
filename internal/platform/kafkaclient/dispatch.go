package kafkaclient

import (
	"errors"
	"time"
)

// start lets the item run now, or when it is due. Called with c.mu held.
func (c *Consumer) start(it *item) {
	if wait := time.Until(it.due); wait > 0 {
		c.park(it, wait)
		return
	}
	go c.run(it) // ends with its partition: every wait in it ends at the stop
}

// park keeps the item in memory, without a slot, and starts it again later. Called with c.mu held.
func (c *Consumer) park(it *item, wait time.Duration) {
	it.p.parked[it] = time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, waiting := it.p.parked[it]; waiting && !it.p.gone {
			delete(it.p.parked, it)
			c.start(it) // looks at the clock again: it may have been set
		}
	})
}

// run takes a slot, passes the gate and handles the message. A stop gives up whatever waits.
func (c *Consumer) run(it *item) {
	p := it.p
	select {
	case c.cfg.Slots <- struct{}{}:
	case <-p.stop.Done():
		return
	}
	defer func() { <-c.cfg.Slots }()
	leave, err := c.cfg.Gate.Enter(p.stop)
	if err != nil {
		return
	}
	if !c.begin(p) {
		leave()
		return
	}
	if it.msg.Since.IsZero() {
		it.msg.Since = time.Now()
	}
	err = c.cfg.Handler(p.work, it.msg)
	leave()
	c.end(it, err)
}

// begin counts the handler in, unless the partition has been stopped meanwhile.
func (c *Consumer) begin(p *partition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.stop.Err() != nil {
		return false
	}
	p.running++
	return true
}

// end notes the fate of the item, or parks it to be handled again. Results of a lost assignment are dropped.
func (c *Consumer) end(it *item, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := it.p
	p.running--
	if p.running == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
	if p.gone {
		return
	}
	if err != nil {
		if p.stop.Err() == nil {
			it.msg.Tries++
			if survived(err) {
				c.startAll(p, p.acquit(it))
			}
			c.park(it, retryIn(err))
		}
		return
	}
	c.unfinished--
	c.bytes -= it.bytes
	c.startAll(p, p.finish(it))
	signal(c.finished)
	if c.hasRoom() {
		signal(c.room)
	}
}

// startAll starts them unless the partition has been stopped. Called with c.mu held.
func (c *Consumer) startAll(p *partition, items []*item) {
	for _, it := range items {
		if p.stop.Err() == nil {
			c.start(it)
		}
	}
}

// survived reports whether the error says that the process has outlived the handling of the message.
func survived(err error) bool {
	var s interface{ Survived() bool }
	return errors.As(err, &s) && s.Survived()
}

// signal leaves a token in a channel of one, if none is there.
func signal(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// retryIn is the wait that the error asks for.
func retryIn(err error) time.Duration {
	var w interface{ RetryIn() time.Duration }
	if errors.As(err, &w) {
		return w.RetryIn()
	}
	return time.Second
}
