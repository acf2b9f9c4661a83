package pgstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/testkit"
)

type intJob = job[int, int]

// gate is a batch function that shows each batch and waits to be let through.
type gate struct {
	batches chan []int
	pass    chan struct{}
}

func newGate() *gate { return &gate{make(chan []int, 1), make(chan struct{})} }

func (g *gate) run(batch []*intJob) {
	var in []int
	for _, j := range batch {
		in = append(in, j.in)
		j.out = j.in * 10
	}
	g.batches <- in
	<-g.pass
}

func startBatcher(t *testing.T, b *batcher[int, int, int]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.serve(ctx) }()
	stop = func() { cancel(); testkit.Receive(t, ended, "the batcher has ended") }
	t.Cleanup(stop)
	return stop
}

// queued waits until n jobs wait for the next batch.
func queued(t *testing.T, b *batcher[int, int, int], n int) {
	t.Helper()
	testkit.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.queue) == n
	}, "%d jobs are queued", n)
}

func TestBatcherGathersWhileABatchRuns(t *testing.T) {
	g := newGate()
	b := newBatcher(3, func(i int) int { return i }, g.run)
	startBatcher(t, b)
	var wg sync.WaitGroup
	call := func(i int) {
		wg.Go(func() {
			out, err := b.do(t.Context(), i)
			require.NoError(t, err)
			require.Equal(t, i*10, out)
		})
	}
	call(0)
	require.Equal(t, []int{0}, testkit.Receive(t, g.batches, "a lone job goes at once"))
	for i := 1; i <= 5; i++ {
		call(i)
		queued(t, b, i)
	}
	g.pass <- struct{}{}
	require.Equal(t, []int{1, 2, 3}, testkit.Receive(t, g.batches, "what gathered goes next"))
	g.pass <- struct{}{}
	require.Equal(t, []int{4, 5}, testkit.Receive(t, g.batches, "the rest"))
	close(g.pass)
	wg.Wait()
}

func TestBatcherKeepsOneJobOfAKeyInABatch(t *testing.T) {
	g := newGate()
	b := newBatcher(10, func(i int) int { return i % 100 }, g.run)
	startBatcher(t, b)
	var wg sync.WaitGroup
	for n, i := range []int{0, 1, 101, 2, 201} {
		wg.Go(func() { _, _ = b.do(t.Context(), i) })
		if n == 0 {
			require.Equal(t, []int{0}, testkit.Receive(t, g.batches, "first"))
		} else {
			queued(t, b, n)
		}
	}
	g.pass <- struct{}{}
	require.Equal(t, []int{1, 2}, testkit.Receive(t, g.batches, "one of each key"))
	g.pass <- struct{}{}
	require.Equal(t, []int{101}, testkit.Receive(t, g.batches, "the loser"))
	g.pass <- struct{}{}
	require.Equal(t, []int{201}, testkit.Receive(t, g.batches, "the second loser"))
	close(g.pass)
	wg.Wait()
}

func TestBatcherGivingUp(t *testing.T) {
	g := newGate()
	orphans := make(chan int, 1)
	b := newBatcher(10, func(i int) int { return i }, g.run)
	b.orphaned = func(_, out int) { orphans <- out }
	startBatcher(t, b)

	running, giveUpRunning := context.WithCancel(t.Context())
	waiting, giveUpWaiting := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() { _, err := b.do(running, 1); results <- err }()
	require.Equal(t, []int{1}, testkit.Receive(t, g.batches, "the batch runs"))
	go func() { _, err := b.do(waiting, 2); results <- err }()
	queued(t, b, 1)

	giveUpWaiting()
	require.ErrorIs(t, testkit.Receive(t, results, "the waiting caller leaves"), context.Canceled)
	giveUpRunning()
	require.ErrorIs(t, testkit.Receive(t, results, "the caller of the running batch leaves"), context.Canceled)
	g.pass <- struct{}{}
	require.Equal(t, 10, testkit.Receive(t, orphans, "a result without a caller is handed over"))

	go func() { _, err := b.do(t.Context(), 3); results <- err }()
	require.Equal(t, []int{3}, testkit.Receive(t, g.batches, "job 2 never ran"))
	close(g.pass)
	require.NoError(t, testkit.Receive(t, results, "job 3"))
	require.Empty(t, orphans)
}

func TestBatcherFinishesWhatWasAskedForBeforeTheStop(t *testing.T) {
	g := newGate()
	b := newBatcher(1, func(i int) int { return i }, g.run)
	stop := startBatcher(t, b)
	results := make(chan error, 2)
	go func() { _, err := b.do(t.Context(), 1); results <- err }()
	testkit.Receive(t, g.batches, "batch")
	go func() { _, err := b.do(t.Context(), 2); results <- err }()
	queued(t, b, 1)
	go func() { close(g.pass); testkit.Receive(t, g.batches, "the queued one still runs") }()
	stop()
	require.NoError(t, testkit.Receive(t, results, "result"))
	require.NoError(t, testkit.Receive(t, results, "result"))
	_, err := b.do(t.Context(), 3)
	require.ErrorIs(t, err, errStopped)
}

// TestIsolateBlamesOnlyTheCulprit also counts the statements: halving, not one by one.
func TestIsolateBlamesOnlyTheCulprit(t *testing.T) {
	refusal := refused.failure("claim", errors.New("constraint"))
	for culprit := range 200 {
		batch := make([]*intJob, 200)
		for i := range batch {
			batch[i] = &intJob{in: i}
		}
		var statements atomic.Int64
		isolate(batch, false, func(part []*intJob, _ bool) error {
			statements.Add(1)
			for _, j := range part {
				if j.in == culprit {
					return refusal
				}
			}
			for _, j := range part {
				j.out = 1
			}
			return nil
		})
		for i, j := range batch {
			if i == culprit {
				require.ErrorIs(t, j.err, refusal)
			} else {
				require.NoError(t, j.err)
				require.Equal(t, 1, j.out)
			}
		}
		require.LessOrEqual(t, statements.Load(), int64(17))
	}
}

func TestIsolateDoesNotHalveWhatConcernsAll(t *testing.T) {
	batch := []*intJob{{in: 1}, {in: 2}}
	calls := 0
	isolate(batch, false, func([]*intJob, bool) error {
		calls++
		return down.failure("claim", errors.New("no route"))
	})
	require.Equal(t, 1, calls)
	for _, j := range batch {
		requireReason(t, failure.DatabaseDown, j.err)
	}
}
