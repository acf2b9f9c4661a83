package billing

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBulkheadBoundsAndServesInOrder(t *testing.T) {
	b := newBulkhead(2, time.Now)
	require.NoError(t, b.enter(t.Context()))
	require.NoError(t, b.enter(t.Context()))
	order := make(chan int, 3)
	for i := range 3 {
		before := len(b.waiting)
		go func() {
			if b.enter(context.Background()) == nil {
				order <- i
			}
		}()
		require.Eventually(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.waiting) == before+1 }, time.Second, time.Millisecond)
	}
	for i := range 3 {
		b.leave(true, false)
		require.Equal(t, i, <-order)
	}
}

func TestBulkheadGivesUpWithoutLosingAPlace(t *testing.T) {
	b := newBulkhead(1, time.Now)
	var inside, peak atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%7)*100*time.Microsecond)
			defer cancel()
			if b.enter(ctx) != nil {
				return
			}
			peak.Store(max(peak.Load(), inside.Add(1)))
			inside.Add(-1)
			b.leave(true, false)
		})
	}
	wg.Wait()
	require.LessOrEqual(t, peak.Load(), int64(1))
	require.NoError(t, b.enter(t.Context()), "the place is still there")
}

// A burst of 429 lowers the bound once, another one after a while again, never below one; successes win it back.
func TestBulkheadAdapts(t *testing.T) {
	now := testNow
	b := newBulkhead(100, func() time.Time { return now })
	answer := func(n int, succeeded, limited bool) {
		for range n {
			require.NoError(t, b.enter(t.Context()))
			b.leave(succeeded, limited)
		}
	}
	answer(50, false, true)
	require.Equal(t, 70, b.Limit())
	now = now.Add(lowerAfter)
	answer(1, false, true)
	require.Equal(t, 49, b.Limit())
	for range 50 {
		now = now.Add(lowerAfter)
		answer(1, false, true)
	}
	require.Equal(t, 1, b.Limit())
	answer(1, false, false)
	require.Equal(t, 1, b.Limit(), "a failure says nothing about the rate")
	answer(6000, true, false)
	require.Equal(t, 100, b.Limit())
}
