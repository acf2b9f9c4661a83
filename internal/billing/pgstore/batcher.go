package pgstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"example.com/billing/internal/failure"
)

// errStopped is the answer to a caller that comes after the store has stopped.
var errStopped = errors.New("the store has stopped")

// batcher lets concurrent callers share a statement. What gathered while the last batch ran goes next: there is no timer,
// so a lone caller waits for nobody, and a crowd fills its batches by itself. One batch runs at a time: two in flight were
// each half as full, and a third slower in all.
//
// No batch holds two jobs of one key; the later one goes with a later batch. A caller may give up at any time: before its
// job is in a batch nothing happens, afterwards the job is finished and handed to orphaned.
type batcher[K comparable, In, Out any] struct {
	max      int                     // jobs in a batch
	key      func(In) K              // tells jobs that cannot share a batch
	run      func([]*job[In, Out])   // sets out or err of each job
	orphaned func(in In, result Out) // a result without a caller; may be nil

	mu      sync.Mutex
	wake    sync.Cond
	queue   []*job[In, Out]
	stopped bool
}

// job is one caller's share of a batch.
type job[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{}
	end  atomic.Uint32 // whoever sets it first, the finished batch or the caller that gives up
}

const (
	pending uint32 = iota
	finished
	abandoned
)

func newBatcher[K comparable, In, Out any](size int, key func(In) K, run func([]*job[In, Out])) *batcher[K, In, Out] {
	b := &batcher[K, In, Out]{max: size, key: key, run: run}
	b.wake.L = &b.mu
	return b
}

// do has the job done with the next batch that has room.
func (b *batcher[K, In, Out]) do(ctx context.Context, in In) (Out, error) {
	var none Out
	j, err := b.put(in)
	if err != nil {
		return none, err
	}
	select {
	case <-j.done:
		return j.out, j.err
	case <-ctx.Done():
		if j.end.CompareAndSwap(pending, abandoned) {
			return none, ctx.Err()
		}
		<-j.done // it was finished at the same moment: nothing is thrown away
		return j.out, j.err
	}
}

func (b *batcher[K, In, Out]) put(in In) (*job[In, Out], error) {
	j := &job[In, Out]{in: in, done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return nil, failure.New(failure.ShuttingDown, "%w", errStopped)
	}
	b.queue = append(b.queue, j)
	b.wake.Signal()
	return j, nil
}

// serve runs batches until ctx is done and the queue is empty.
func (b *batcher[K, In, Out]) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.stopped = true
		b.wake.Broadcast()
	})
	defer stop()
	for batch := b.take(); batch != nil; batch = b.take() {
		b.run(batch)
		b.finish(batch)
	}
}

// take blocks for the next batch: jobs in the order of their arrival, one per key, without those that were given up. It
// returns nil when the batcher has stopped and nothing is left.
func (b *batcher[K, In, Out]) take() []*job[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for len(b.queue) == 0 && !b.stopped {
			b.wake.Wait()
		}
		if len(b.queue) == 0 {
			return nil
		}
		if batch := b.pick(); len(batch) > 0 {
			return batch
		}
	}
}

func (b *batcher[K, In, Out]) pick() []*job[In, Out] {
	batch := make([]*job[In, Out], 0, min(len(b.queue), b.max))
	seen := make(map[K]struct{}, cap(batch))
	var rest []*job[In, Out]
	for i, j := range b.queue {
		if len(batch) == b.max {
			rest = append(rest, b.queue[i:]...)
			break
		}
		if j.end.Load() == abandoned {
			continue
		}
		k := b.key(j.in)
		if _, twice := seen[k]; twice {
			rest = append(rest, j)
			continue
		}
		seen[k] = struct{}{}
		batch = append(batch, j)
	}
	b.queue = rest
	return batch
}

func (b *batcher[K, In, Out]) finish(batch []*job[In, Out]) {
	for _, j := range batch {
		if !j.end.CompareAndSwap(pending, finished) && j.err == nil && b.orphaned != nil {
			b.orphaned(j.in, j.out)
		}
		close(j.done)
	}
}
