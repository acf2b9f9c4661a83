package kafkaclient_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/platform/kafkaclient"
)

// elect begins a new leader epoch.
func (f fixture) elect(t *testing.T) {
	t.Helper()
	require.NoError(t, f.Fake().MoveTopicPartition(f.topic, 0, f.Fake().LeaderFor(f.topic, 0)))
}

// place is what the group has committed.
func (f fixture) place(t *testing.T) (offset int64, epoch int32) {
	t.Helper()
	offsets, err := f.Admin.FetchOffsets(t.Context(), f.group)
	require.NoError(t, err)
	o, ok := offsets.Lookup(f.topic, 0)
	require.True(t, ok)
	return o.At, o.LeaderEpoch
}

// A commit carries the leader epoch of the last finished record, also where markers of transactions follow it, and an
// assignment without records commits none that is older.
func TestCommitsCarryTheLeaderEpoch(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	f.produce(10, "")
	f.elect(t)
	f.elect(t)
	f.produce(10, "")
	count := newTally()
	_, stop := f.start(t, nil, count.handle)
	eventually(t, func() bool { return count.handled() == 20 })
	require.NoError(t, stop())
	offset, epoch := f.place(t)
	require.Equal(t, []int64{20, 2}, []int64{offset, int64(epoch)})

	f.transact(t, kgo.TryAbort)
	_, stop = f.start(t, nil, count.handle)
	eventually(t, func() bool { return f.committed(t) > 20 })
	require.NoError(t, stop())
	_, epoch = f.place(t)
	require.Equal(t, int32(2), epoch)
	count.exactly(t, 0, 20)
}

// compares lets the broker offer the comparison of epochs in the version that the client speaks, which the embedded broker
// does not; the log of every epoch ends at the offset. It counts how often each epoch was asked about.
func (f fixture) compares(t *testing.T, end int64) (asked func(epoch int32) int) {
	t.Helper()
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), f.Client)
	require.NoError(t, err)
	for i, k := range versions.ApiKeys {
		if k.ApiKey == int16(kmsg.OffsetForLeaderEpoch) {
			versions.ApiKeys[i].MinVersion, versions.ApiKeys[i].MaxVersion = 2, 2
		}
	}
	f.Fake().ControlKey(int16(kmsg.ApiVersions), func(r kmsg.Request) (kmsg.Response, error, bool) {
		f.Fake().KeepControl()
		res := r.ResponseKind().(*kmsg.ApiVersionsResponse)
		res.ApiKeys = versions.ApiKeys
		return res, nil, true
	})
	var mu sync.Mutex
	times := map[int32]int{}
	f.Fake().ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		f.Fake().KeepControl()
		epoch := r.(*kmsg.OffsetForLeaderEpochRequest).Topics[0].Partitions[0].LeaderEpoch
		mu.Lock()
		defer mu.Unlock()
		times[epoch]++
		partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		partition.LeaderEpoch, partition.EndOffset = epoch, end
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic, topic.Partitions = f.topic, append(topic.Partitions, partition)
		res := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
	return func(epoch int32) int { mu.Lock(); defer mu.Unlock(); return times[epoch] }
}

// The group has committed 20 under epoch 0. The log of that epoch ends at 10 and was filled anew under the next one, as
// after an unclean leader election: what stands between is new and is handled.
func TestALogThatWasCutAndFilledAnew(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	f.produce(10, "")
	f.elect(t)
	f.produce(20, "")
	committed := kadm.Offsets{}
	committed.Add(kadm.Offset{Topic: f.topic, Partition: 0, At: 20, LeaderEpoch: 0})
	require.NoError(t, f.Admin.CommitAllOffsets(t.Context(), f.group, committed))
	f.compares(t, 10)
	var log logBook
	count := newTally()
	_, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) { c.Log = log.logger() }, count.handle)
	eventually(t, func() bool { return count.handled() == 20 })
	require.NoError(t, stop())
	count.exactly(t, 10, 30)
	require.Equal(t, 1, log.count("has lost records"))
	require.Equal(t, 1, log.count("from=10 committed=20"))
	offset, epoch := f.place(t)
	require.Equal(t, []int64{30, 1}, []int64{offset, int64(epoch)})
}

// The seek that ends every pause has the client compare the epoch, too. Of a log that was cut meanwhile the consumer ends:
// what it has in memory may not be there any more.
func TestASeekCarriesTheLeaderEpoch(t *testing.T) {
	for name, row := range map[string]struct{ end, handled int64 }{"as it was": {10, 20}, "cut": {5, 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaultyFixture(t, 1)
			f.elect(t)
			asked := f.compares(t, row.end)
			count := newTally()
			c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) { c.Stall = stall }, count.handle)
			f.produce(10, "")
			eventually(t, func() bool { return count.handled() == 10 })
			require.Zero(t, asked(1))
			require.NoError(t, c.PauseUnawares(0))
			f.produce(10, "")
			eventually(t, func() bool { return asked(1) > 0 && int64(count.handled()) == row.handled })
			if row.end == 10 {
				require.NoError(t, stop())
			} else {
				eventually(t, func() bool { return len(c.State()) == 0 })
				require.ErrorContains(t, stop(), "run backwards, from 10 to 5")
			}
			count.exactly(t, 0, row.handled)
		})
	}
}

// A partition whose place was found late, and is the first record of all, goes on where it is when the group rebalances. A
// seek to "the beginning" was answered when the consumer had read on: it went back there, and ended.
func TestALateBeginningSurvivesARebalance(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 6)
	const records = 6000
	f.produce(records, keys(200)...)
	cure := f.refuseGroup(kerr.NotCoordinator)
	var handled atomic.Int64
	handler := func(context.Context, kafkaclient.Message) error {
		<-time.After(2 * time.Millisecond) // work, so that the rebalance finds some under way
		handled.Add(1)
		return nil
	}
	first, stopFirst := f.start(t, nil, handler)
	eventually(t, func() bool { return paused(first, "unplaced") })
	cure()
	eventually(t, func() bool { return handled.Load() > records/10 })
	second, stopSecond := f.start(t, nil, handler)
	eventually(t, func() bool { return len(first.State()) == 3 && len(second.State()) == 3 })
	eventually(t, func() bool { return f.committed(t) == records })
	require.NoError(t, stopSecond())
	require.NoError(t, stopFirst())
}
