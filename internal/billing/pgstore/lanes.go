package pgstore

import (
	"context"
	"sync"
	"time"
)

// lanes are two batchers for one kind of work. What was waited for in vain goes apart, with statements that wait for a moment
// only: a row that somebody's open transaction keeps locked must not hold the others up each time it is tried (hazard H32).
type lanes[K comparable, In, Out any] struct {
	usual, apart *batcher[K, In, Out]
	locked       *recent[K]
}

// newLanes shares one turn among all that works apart, so that together they take one connection.
func newLanes[K comparable, In, Out any](turn *sync.Mutex, key func(In) K, run func(batch []*job[In, Out], brief bool)) *lanes[K, In, Out] {
	l := &lanes[K, In, Out]{locked: &recent[K]{at: map[K]time.Time{}}}
	noted := func(batch []*job[In, Out], brief bool) {
		run(batch, brief)
		for _, j := range batch {
			l.locked.note(key(j.in), isLockWait(j.err), time.Now())
		}
	}
	l.usual = newBatcher(maxBatch, key, func(batch []*job[In, Out]) { noted(batch, false) })
	l.apart = newBatcher(maxBatch, key, func(batch []*job[In, Out]) {
		turn.Lock()
		defer turn.Unlock()
		noted(batch, true)
	})
	return l
}

func (l *lanes[K, In, Out]) of(in In) *batcher[K, In, Out] {
	if l.locked.has(l.usual.key(in), time.Now()) {
		return l.apart
	}
	return l.usual
}

func (l *lanes[K, In, Out]) do(ctx context.Context, in In) (Out, error) { return l.of(in).do(ctx, in) }

func (l *lanes[K, In, Out]) serve(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { l.usual.serve(ctx) })
	wg.Go(func() { l.apart.serve(ctx) })
	wg.Wait()
}

const (
	recently  = time.Minute
	maxRecent = 4096 // keys that are remembered; past it a locked row delays its neighbours by one more wait
)

// recent remembers keys for a while. It is empty as a rule, and costs next to nothing then.
type recent[K comparable] struct {
	mu sync.Mutex
	at map[K]time.Time
}

func (r *recent[K]) has(k K, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[k]
	return ok && now.Sub(at) < recently
}

func (r *recent[K]) note(k K, remember bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !remember {
		delete(r.at, k)
		return
	}
	if len(r.at) >= maxRecent {
		for k, at := range r.at {
			if now.Sub(at) >= recently {
				delete(r.at, k)
			}
		}
	}
	if len(r.at) < maxRecent {
		r.at[k] = now
	}
}
