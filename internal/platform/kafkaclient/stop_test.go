package kafkaclient_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/testkit"
)

// A stop falls into a rebalance that is stuck for longer than closing takes by itself: another member lets it wait. The
// client cannot commit before that ends. There is time, since nothing had to be drained (torture, seeds 3 and 8).
func TestAStopInAStuckRebalanceLeavesTheGroup(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 6)
	count := newTally()
	c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) { c.Drain = 5 * time.Second }, count.handle)
	eventually(t, func() bool { return len(c.State()) == 6 && paused(c, "") })
	waits, release := f.withhold(t, kmsg.SyncGroup)
	f.start(t, nil, count.handle)
	for range 2 { // members
		testkit.Receive(t, waits, "the rebalance to be stuck")
	}
	f.produce(100, keys(100)...)
	began := time.Now()
	time.AfterFunc(3*time.Second, release)
	require.NoError(t, stop())
	t.Logf("stopped after %s", time.Since(began).Round(time.Millisecond))
	require.Greater(t, time.Since(began), 2*time.Second, "it was stuck")
}

// A stop falls into a revocation that waits for handlers. Those of the other partitions get what is left of the same drain
// time, not one of their own after it.
func TestAStopInARevocationDrainsOnce(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 2)
	f.produce(20, keys(20)...)
	var busy atomic.Int64
	var log logBook
	c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) { c.Drain, c.Log = 3*time.Second, log.logger() },
		func(ctx context.Context, _ kafkaclient.Message) error {
			busy.Add(1)
			<-ctx.Done()
			return ctx.Err()
		})
	eventually(t, func() bool { return busy.Load() == 20 && len(c.State()) == 2 })
	f.start(t, nil, newTally().handle)
	eventually(t, func() bool { return log.count("partitions revoked") == 1 })
	began := time.Now()
	require.NoError(t, stop())
	t.Logf("stopped after %s", time.Since(began).Round(time.Millisecond))
	require.Less(t, time.Since(began), 5*time.Second)
}
