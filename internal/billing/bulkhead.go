package billing

import (
	"context"
	"math"
	"sync"
	"time"
)

// bulkhead bounds the charges at the provider. A rate limit of the provider lowers the bound, each success raises it a
// little, up to the configured one: additive increase, multiplicative decrease, as TCP does it. A rate limit is thus no
// failure and stops nobody (hazard H16).
type bulkhead struct {
	clock func() time.Time
	most  float64

	mu      sync.Mutex
	limit   float64
	inside  int
	lowered time.Time
	waiting []chan struct{} // first come, first served
}

const (
	decrease   = 0.7
	lowerAfter = 200 * time.Millisecond // one burst of refusals is one signal
)

func newBulkhead(most int, clock func() time.Time) *bulkhead {
	return &bulkhead{clock: clock, most: float64(most), limit: float64(most)}
}

// enter waits for a place. Whoever got one gives it back with leave.
func (b *bulkhead) enter(ctx context.Context) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.inside < int(b.limit) {
		b.inside++
		b.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	b.waiting = append(b.waiting, mine)
	b.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-mine: // given at the same moment: passed on
		b.inside--
		b.admit()
	default:
		for i, w := range b.waiting {
			if w == mine {
				b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
				break
			}
		}
	}
	return ctx.Err()
}

// leave gives the place back and learns from the outcome.
func (b *bulkhead) leave(succeeded, limited bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside--
	switch {
	case limited && b.clock().Sub(b.lowered) >= lowerAfter:
		b.limit, b.lowered = math.Max(1, b.limit*decrease), b.clock()
	case succeeded && b.limit < b.most:
		b.limit = math.Min(b.most, b.limit+1/b.limit)
	}
	b.admit()
}

// admit lets those in who have waited longest. Called with b.mu held.
func (b *bulkhead) admit() {
	for len(b.waiting) > 0 && b.inside < int(b.limit) {
		b.inside++
		close(b.waiting[0])
		b.waiting = b.waiting[1:]
	}
}

// Limit is how many charges may be at the provider now.
func (b *bulkhead) Limit() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.limit)
}
