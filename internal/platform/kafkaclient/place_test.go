package kafkaclient_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/testkit"
)

// newFaultyFixture is one whose broker can be told to fail.
func newFaultyFixture(t *testing.T, partitions int32) fixture {
	t.Helper()
	f := fixture{testkit.FakeKafka(t), "topic", "group"}
	f.CreateTopics(partitions, f.topic)
	return f
}

// withhold lets requests of the key wait, and with them all that comes after on their connection, until released.
func (f fixture) withhold(t *testing.T, key kmsg.Key) (arrived <-chan struct{}, release func()) {
	t.Helper()
	came, open := make(chan struct{}, 1<<10), make(chan struct{})
	f.Fake().ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		came <- struct{}{}
		f.Fake().SleepControl(func() { <-open })
		return nil, nil, false
	})
	release = sync.OnceFunc(func() { close(open) })
	t.Cleanup(release)
	return came, release
}

// logBook keeps what is logged.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

// count is how often it says so.
func (b *logBook) count(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), what)
}

func (b *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// tally counts how often each offset of a topic of one partition was handled.
type tally struct {
	mu    sync.Mutex
	times map[int64]int
}

func newTally() *tally { return &tally{times: map[int64]int{}} }

func (c *tally) handle(_ context.Context, m kafkaclient.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[m.Offset]++
	return nil
}

func (c *tally) handled() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.times) }

// exactly says that all offsets from one to another were handled once, and nothing else was.
func (c *tally) exactly(t *testing.T, from, next int64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Len(t, c.times, int(next-from))
	for o := from; o < next; o++ {
		require.Equal(t, 1, c.times[o], "offset %d", o)
	}
}

func paused(c *kafkaclient.Consumer, reason string) bool {
	states := c.State()
	for _, s := range states {
		if s.Paused != reason {
			return false
		}
	}
	return len(states) > 0
}

// While the coordinator does not tell where a partition begins, it begins nowhere; then it begins where it was left, no
// record earlier or later. The client, asked to do that, leaves such a partition unread; and an error that stands at a
// partition looks like "nothing was ever committed" to whoever does not look.
func TestAPartitionWaitsForItsPlace(t *testing.T) {
	for name, refuse := range map[string]func(fixture) (cure func()){
		"the coordinator moves":       func(f fixture) func() { return f.refuseGroup(kerr.NotCoordinator) },
		"the coordinator loads still": func(f fixture) func() { return f.refuseGroup(kerr.CoordinatorLoadInProgress) },
		"the partition has an error":  func(f fixture) func() { return f.refusePartitions(kerr.TopicAuthorizationFailed) },
		"a transaction is under way":  func(f fixture) func() { return f.refusePartitions(kerr.UnstableOffsetCommit) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaultyFixture(t, 1)
			f.leftAt(t, 60)
			cure := refuse(f)
			var log logBook
			count := newTally()
			c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) { c.Log = log.logger() }, count.handle)
			eventually(t, func() bool { return log.count(waitsForPlace) == 1 && paused(c, "unplaced") })
			require.Zero(t, count.handled())
			cure()
			eventually(t, func() bool { return count.handled() == 40 })
			f.produce(10, "")
			eventually(t, func() bool { return count.handled() == 50 })
			require.NoError(t, stop())
			count.exactly(t, 60, 110)
			require.Equal(t, int64(110), f.committed(t))
		})
	}
}

// refuseGroup answers questions for committed offsets with an error of the whole.
func (f fixture) refuseGroup(err *kerr.Error) (cure func()) {
	return f.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: f.group, Err: err, Count: -1}).Remove
}

// refusePartitions answers with an error at each partition.
func (f fixture) refusePartitions(err *kerr.Error) (cure func()) {
	var over atomic.Bool
	f.Fake().ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if over.Load() {
			return nil, nil, false
		}
		f.Fake().KeepControl()
		req := r.(*kmsg.OffsetFetchRequest)
		res := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic = f.topic
		for _, p := range req.Groups[0].Topics[0].Partitions {
			partition := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			partition.Partition, partition.Offset, partition.ErrorCode = p, -1, err.Code
			topic.Partitions = append(topic.Partitions, partition)
		}
		group := kmsg.NewOffsetFetchResponseGroup()
		group.Group, group.Topics = f.group, []kmsg.OffsetFetchResponseGroupTopic{topic}
		res.Groups = append(res.Groups, group)
		return res, nil, true
	})
	return func() { over.Store(true) }
}

const waitsForPlace = "the partitions wait for them"

// leftAt produces 100 records, of which the group has done so many.
func (f fixture) leftAt(t *testing.T, offset int64) {
	t.Helper()
	f.produce(100, "")
	require.NoError(t, f.Admin.CommitAllOffsets(t.Context(), f.group, kadm.OffsetsList{{Topic: f.topic, At: offset}}.Offsets()))
}

// The poll loop goes on meanwhile: for longer than max.poll.interval.ms the member stays in its group.
func TestWaitingForAPlaceCostsNoMembership(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	f.leftAt(t, 60)
	cure := f.refuseGroup(kerr.NotCoordinator)
	var log logBook
	count := newTally()
	_, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) {
		c.Log = log.logger()
		c.Client.Extra["session.timeout.ms"], c.Client.Extra["max.poll.interval.ms"] = "3000", "3000"
	}, count.handle)
	began := time.Now()
	eventually(t, func() bool { return log.count(waitsForPlace) == 1 && time.Since(began) > 6*time.Second })
	cure()
	eventually(t, func() bool { return count.handled() == 40 })
	require.Zero(t, log.count("partitions revoked"))
	require.NoError(t, stop())
	count.exactly(t, 60, 100)
}

// A partition whose place is asked for in vain does not delay a stop, even if the coordinator says nothing at all any more.
func TestAStopDoesNotWaitForAPlace(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	f.produce(10, "")
	asked, _ := f.withhold(t, kmsg.OffsetFetch)
	count := newTally()
	_, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) { c.Drain = 5 * time.Second }, count.handle)
	testkit.Receive(t, asked, "the question")
	began := time.Now()
	err := stop()
	t.Logf("stopped after %s: %v", time.Since(began).Round(time.Millisecond), err)
	require.Less(t, time.Since(began), 8*time.Second)
	require.Zero(t, count.handled())
}

// A coordinator that says nothing for a while, to the question and to all that comes after it.
func TestASilentCoordinator(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	f.leftAt(t, 60)
	_, release := f.withhold(t, kmsg.OffsetFetch)
	var log logBook
	count := newTally()
	_, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) { c.Log = log.logger() }, count.handle)
	eventually(t, func() bool { return log.count(waitsForPlace) == 1 })
	release()
	eventually(t, func() bool { return count.handled() == 40 })
	require.NoError(t, stop())
	count.exactly(t, 60, 100)
}

// Care ends with the suspects: what comes after them is handled like any other, also in a backlog that has no gap (hazard
// H33), and not before they are through.
func TestCareEndsWithTheSuspectRange(t *testing.T) {
	const suspects, others = 3, 200
	f := newFixture(t, 1)
	f.produce(suspects+others, keys(suspects+others)...)
	var alone, together, most, now atomic.Int64
	f.start(t, func(cfg *kafkaclient.ConsumerConfig) {
		cfg.Careful = func(context.Context, string, int32, int64) (int64, error) { return suspects, nil }
	}, func(_ context.Context, m kafkaclient.Message) error {
		if m.Alone {
			<-time.After(100 * time.Millisecond) // all the others have been received meanwhile
			alone.Add(1)
			return nil
		}
		if alone.Load() < suspects {
			t.Error("handled before the suspects were through")
		}
		most.Store(max(most.Load(), now.Add(1)))
		<-time.After(20 * time.Millisecond)
		now.Add(-1)
		together.Add(1)
		return nil
	})
	eventually(t, func() bool { return together.Load() == others })
	require.Equal(t, int64(suspects), alone.Load())
	require.Greater(t, most.Load(), int64(20))
}

// A suspect that the process has outlived may have to wait, for a person even: the others do not wait behind it. One that
// could not be handled has proved nothing, and keeps them waiting.
func TestASuspectThatWaitsKeepsNobodyWaiting(t *testing.T) {
	const suspects, others = 3, 20
	f := newFixture(t, 1)
	f.produce(suspects+others, keys(suspects+others)...)
	var unhandled, handled atomic.Int64
	cured := make(chan struct{})
	_, stop := f.start(t, func(cfg *kafkaclient.ConsumerConfig) {
		cfg.Careful = func(context.Context, string, int32, int64) (int64, error) { return suspects, nil }
	}, func(_ context.Context, m kafkaclient.Message) error {
		switch {
		case m.Offset == 0 && m.Alone && unhandled.Add(1) < 3:
			if handled.Load() > 0 {
				t.Error("another was handled while nobody knew whether this one kills")
			}
			return again(time.Millisecond)
		case m.Offset == 0 && m.Alone:
			return outlived{again(time.Millisecond)}
		case m.Offset == 0:
			select {
			case <-cured:
			default:
				return outlived{again(time.Millisecond)}
			}
		case m.Alone != (m.Offset < suspects):
			t.Errorf("record %d is alone: %v", m.Offset, m.Alone)
		}
		handled.Add(1)
		return nil
	})
	eventually(t, func() bool { return handled.Load() == suspects+others-1 })
	close(cured)
	eventually(t, func() bool { return handled.Load() == suspects+others })
	require.NoError(t, stop())
	require.Equal(t, int64(suspects+others), f.committed(t))
}

// A stop and a rebalance are ends that the process has outlived; each assignment ends once (hazard H33).
func TestGoodEndsAreTold(t *testing.T) {
	f := newFixture(t, 2)
	f.produce(20, keys(20)...)
	var mu sync.Mutex
	began, ended := map[int32]int{}, map[int32]int{}
	wire := func(cfg *kafkaclient.ConsumerConfig) {
		cfg.Careful = func(_ context.Context, _ string, p int32, _ int64) (int64, error) {
			mu.Lock()
			defer mu.Unlock()
			began[p]++
			return 0, nil
		}
		cfg.EndedWell = func(_ context.Context, _ string, at map[int32]int64) error {
			mu.Lock()
			defer mu.Unlock()
			for p := range at {
				ended[p]++
			}
			return nil
		}
	}
	failing := func(context.Context, kafkaclient.Message) error { return again(time.Minute) } // an outage: no offset moves
	a, stopA := f.start(t, wire, failing)
	eventually(t, func() bool { return len(a.State()) == 2 })
	b, stopB := f.start(t, wire, failing)
	eventually(t, func() bool { return len(a.State()) == 1 && len(b.State()) == 1 })
	mu.Lock()
	require.Len(t, ended, 1, "the one that was handed over")
	mu.Unlock()
	require.NoError(t, stopA())
	require.NoError(t, stopB())
	require.Equal(t, began, ended)
}

// Only what was there at the assignment can have killed anybody: an idle partition that is assigned often is not slow.
func TestCareEndsWithTheRecordsThatWereThere(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(3, "a", "b", "c")
	alone := make(chan bool, 6)
	f.start(t, func(cfg *kafkaclient.ConsumerConfig) {
		cfg.Careful = func(_ context.Context, _ string, _ int32, committed int64) (int64, error) {
			return committed + 1000, nil
		}
	}, func(_ context.Context, m kafkaclient.Message) error {
		alone <- m.Alone
		return nil
	})
	for range 3 {
		require.True(t, testkit.Receive(t, alone, "a record that was there"))
	}
	f.produce(3, "a", "b", "c")
	for range 3 {
		require.False(t, testkit.Receive(t, alone, "a record that came later"))
	}
}
