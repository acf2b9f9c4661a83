package loadgen

import (
	"context"
	"fmt"
	"time"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

// Publisher publishes records and waits until the broker has answered for each: one error per record, nil when it was
// acknowledged.
type Publisher interface {
	PublishAll(ctx context.Context, rs []kafkaclient.Record) []error
}

// chunk bounds what is under way at once.
const chunk = 1000

// Sent is called for each event with the time just before it was published, and with its error. An event with an error
// may have arrived all the same.
type Sent func(e Event, at time.Time, err error)

// Backlog publishes n events as fast as the broker takes them, and returns the first error.
func (g *Generator) Backlog(ctx context.Context, p Publisher, n int, sent Sent) error {
	var first error
	for n > 0 && first == nil {
		first = g.publish(ctx, p, min(n, chunk), sent)
		n -= chunk
	}
	return first
}

// AtRate publishes so many events a second until the context ends or n were sent (0: no end). When the broker is slow it
// catches up, so that the rate holds on average; errors go to sent and do not stop it.
func (g *Generator) AtRate(ctx context.Context, p Publisher, rate float64, n int, sent Sent) error {
	if rate <= 0 || rate > 1e6 {
		return fmt.Errorf("loadgen: rate is %v a second, want more than 0 and at most 1000000", rate)
	}
	every := time.Duration(float64(time.Second) / rate) // whole nanoseconds: a rounded due time would be found not due yet
	start, done := time.Now(), 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n == 0 || done < n {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		due := 1 + int(time.Since(start)/every) - done
		if n > 0 {
			due = min(due, n-done)
		}
		if due > 0 {
			due = min(due, chunk)
			_ = g.publish(ctx, p, due, sent) // each error went to sent
			done += due
		}
		timer.Reset(time.Until(start.Add(time.Duration(done) * every)))
	}
	return nil
}

// publish sends the next n events as one batch and reports each. It returns the first error.
func (g *Generator) publish(ctx context.Context, p Publisher, n int, sent Sent) error {
	events, records := make([]Event, n), make([]kafkaclient.Record, n)
	for i := range events {
		events[i] = g.Next()
		records[i] = events[i].Record
	}
	at := time.Now()
	errs := p.PublishAll(ctx, records)
	var first error
	for i, e := range events {
		if errs[i] != nil && first == nil {
			first = fmt.Errorf("loadgen: publish %s: %w", e.Kind, errs[i])
		}
		if sent != nil {
			sent(e, at, errs[i])
		}
	}
	return first
}

// Tally counts what was sent by what must become of it.
type Tally struct {
	Charged, Duplicate int
	Dead               map[failure.Reason]int
	Unacknowledged     int // in no other count: it may have arrived or not
}

// Count is a Sent.
func (t *Tally) Count(e Event, _ time.Time, err error) {
	switch {
	case err != nil:
		t.Unacknowledged++
	case e.Want.Outcome == Charged:
		t.Charged++
	case e.Want.Outcome == Duplicate:
		t.Duplicate++
	default:
		if t.Dead == nil {
			t.Dead = map[failure.Reason]int{}
		}
		t.Dead[e.Want.Reason]++
	}
}

// Total is the number of events that were acknowledged.
func (t *Tally) Total() int {
	n := t.Charged + t.Duplicate
	for _, dead := range t.Dead {
		n += dead
	}
	return n
}
