package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimiterBoundsAndServesInOrder(t *testing.T) {
	b := New(2, time.Now)
	first, err := b.Enter(t.Context())
	require.NoError(t, err)
	_, err = b.Enter(t.Context())
	require.NoError(t, err)
	order := make(chan int, 3)
	for i := range 3 {
		before := len(b.waiting)
		go func() {
			if _, err := b.Enter(context.Background()); err == nil {
				order <- i
			}
		}()
		require.Eventually(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.waiting) == before+1 }, time.Second, time.Millisecond)
	}
	for i := range 3 {
		b.Leave(first, Taken)
		require.Equal(t, i, <-order)
	}
}

func TestLimiterGivesUpWithoutLosingAPlace(t *testing.T) {
	b := New(1, time.Now)
	var inside, peak atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%7)*100*time.Microsecond)
			defer cancel()
			p, err := b.Enter(ctx)
			if err != nil {
				return
			}
			peak.Store(max(peak.Load(), inside.Add(1)))
			inside.Add(-1)
			b.Leave(p, Taken)
		})
	}
	wg.Wait()
	require.LessOrEqual(t, peak.Load(), int64(1))
	_, err := b.Enter(t.Context())
	require.NoError(t, err, "the place is still there")
}
