package kafkaclient_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/platform/kafkaclient"
)

const (
	owes  = "partition owes records"
	stall = time.Second // longer than the client pauses by itself after an offset that is not there
)

// watched starts a consumer with an impatient watchdog.
func (f fixture) watched(t *testing.T, change func(*kafkaclient.ConsumerConfig), handler kafkaclient.Handler) (*kafkaclient.Consumer, *logBook) {
	t.Helper()
	log := &logBook{}
	c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) {
		c.Stall, c.Log = stall, log.logger()
		c.Client.Extra["fetch.wait.max.ms"] = "50"
		if change != nil {
			change(c)
		}
	}, handler)
	t.Cleanup(func() { require.NoError(t, stop()) })
	return c, log
}

// awaitLooks waits until the watchdog has asked the broker so many times more.
func (f fixture) awaitLooks(t *testing.T, n int) {
	t.Helper()
	asked := f.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Observe: true, Count: -1})
	defer asked.Remove()
	eventually(t, func() bool { return asked.Hits() >= 2*n }) // for the start and for the end
}

func stalled(c *kafkaclient.Consumer) bool {
	states := c.State()
	return len(states) == 1 && states[0].Stalled
}

// mute lets fetches find nothing, though there is more, until the returned function is called.
func (f fixture) mute(end int64) (speak func()) {
	var over atomic.Bool
	f.Fake().ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if over.Load() {
			return nil, nil, false
		}
		f.Fake().KeepControl()
		f.Fake().SleepControl(func() { <-time.After(10 * time.Millisecond) }) // a broker waits, too
		req := r.(*kmsg.FetchRequest)
		res := req.ResponseKind().(*kmsg.FetchResponse)
		for _, asked := range req.Topics {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
			for _, p := range asked.Partitions {
				partition := kmsg.NewFetchResponseTopicPartition()
				partition.Partition, partition.HighWatermark, partition.LastStableOffset = p.Partition, end, end
				topic.Partitions = append(topic.Partitions, partition)
			}
			res.Topics = append(res.Topics, topic)
		}
		return res, nil, true
	})
	return func() { over.Store(true) }
}

// Fetches give nothing though there is more. That is told once, and shown as long as it lasts.
func TestTheWatchdogTellsOfAPartitionThatOwes(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	count := newTally()
	c, log := f.watched(t, nil, count.handle)
	f.produce(10, "")
	eventually(t, func() bool { return count.handled() == 10 })
	speak := f.mute(20)
	f.produce(10, "")
	eventually(t, func() bool { return log.count(owes) == 1 && stalled(c) })
	f.awaitLooks(t, 2)
	require.Equal(t, 1, log.count(owes), "once for a position")
	require.Equal(t, 1, log.count("offset=10 end=20"))
	require.Equal(t, 10, count.handled())
	speak()
	eventually(t, func() bool { return count.handled() == 20 })
	require.False(t, stalled(c))
	count.exactly(t, 0, 20)
}

// The client has stopped to fetch and nobody told it to. The watchdog wakes it: nothing is left out, nothing handled twice.
func TestTheWatchdogWakesAPartition(t *testing.T) {
	for name, before := range map[string]int{"in the middle": 10, "before the first record": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaultyFixture(t, 1)
			count := newTally()
			c, log := f.watched(t, nil, count.handle)
			f.produce(before, "")
			fetches := f.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Observe: true, Count: -1})
			eventually(t, func() bool { return count.handled() == before && fetches.Hits() > 1 })
			require.NoError(t, c.PauseUnawares(0))
			f.produce(1000, "")
			eventually(t, func() bool { return count.handled() == before+1000 })
			count.exactly(t, 0, int64(before)+1000)
			require.Equal(t, 1, log.count(owes))
			require.False(t, stalled(c))
		})
	}
}

// It is quiet where nothing is owed, also at the end of a log that ends with what the client does not hand over.
func TestTheWatchdogIsQuiet(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, fixture){
		"idle":                          func(*testing.T, fixture) {},
		"after a committed transaction": func(t *testing.T, f fixture) { f.transact(t, kgo.TryCommit) },
		"after an aborted transaction":  func(t *testing.T, f fixture) { f.transact(t, kgo.TryAbort) },
		"behind an open transaction":    func(t *testing.T, f fixture) { f.open(t) },
		"all was deleted": func(t *testing.T, f fixture) {
			_, err := f.Admin.DeleteRecords(t.Context(), kadm.OffsetsList{{Topic: f.topic, At: 10}}.Offsets())
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaultyFixture(t, 1)
			f.produce(10, "")
			require.NoError(t, f.Admin.CommitAllOffsets(t.Context(), f.group, kadm.OffsetsList{{Topic: f.topic, At: 5}}.Offsets()))
			prepare(t, f)
			c, log := f.watched(t, nil, newTally().handle)
			eventually(t, func() bool { return paused(c, "") })
			f.awaitLooks(t, 3)
			require.Zero(t, log.count(owes))
			require.False(t, stalled(c))
		})
	}
}

// Nothing is left to do behind the last record: the group's offset goes past what the client does not hand over, once all
// before it is finished, and with it what was taken.
func TestOffsetsGoPastWhatIsNoRecord(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*testing.T, fixture)
		records int64
		end     int64
	}{
		"a committed transaction": {func(t *testing.T, f fixture) { f.transact(t, kgo.TryCommit) }, 13, 14},
		"an aborted transaction":  {func(t *testing.T, f fixture) { f.transact(t, kgo.TryAbort) }, 10, 14},
		"several": {func(t *testing.T, f fixture) {
			f.transact(t, kgo.TryAbort)
			f.transact(t, kgo.TryCommit)
			f.transact(t, kgo.TryAbort)
		}, 13, 22},
		"an open transaction": {func(t *testing.T, f fixture) { f.open(t) }, 10, 10},
		"all deleted": {func(t *testing.T, f fixture) {
			_, err := f.Admin.DeleteRecords(t.Context(), kadm.OffsetsList{{Topic: f.topic, At: 10}}.Offsets())
			require.NoError(t, err)
		}, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaultyFixture(t, 1)
			f.produce(10, "")
			c.prepare(t, f)
			var taken, next atomic.Int64
			_, stop := f.start(t, func(cfg *kafkaclient.ConsumerConfig) {
				cfg.Client.Extra["auto.commit.interval.ms"] = "100"
				cfg.Progress = func(_ context.Context, ps []kafkaclient.Progress) error {
					taken.Add(ps[0].Records())
					next.Store(ps[0].Next)
					return nil
				}
			}, newTally().handle)
			eventually(t, func() bool { return f.Committed(f.group, f.topic)[0] == c.end })
			require.NoError(t, stop())
			require.Equal(t, c.end, f.Committed(f.group, f.topic)[0])
			require.Equal(t, []int64{c.records, c.end}, []int64{taken.Load(), next.Load()})
		})
	}
}

// An unfinished record keeps the offset, whatever lies behind it.
func TestATailDoesNotPassAnUnfinishedRecord(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	f.produce(10, "")
	f.transact(t, kgo.TryAbort)
	finish := make(chan struct{})
	c, _ := f.start(t, func(cfg *kafkaclient.ConsumerConfig) { cfg.Client.Extra["auto.commit.interval.ms"] = "100" },
		func(_ context.Context, m kafkaclient.Message) error {
			if m.Offset == 4 {
				<-finish
			}
			return nil
		})
	eventually(t, func() bool {
		return f.Committed(f.group, f.topic)[0] == 4 && len(c.State()) == 1 && c.State()[0].Unfinished == 1
	})
	close(finish)
	eventually(t, func() bool { return f.Committed(f.group, f.topic)[0] == 14 })
}

// transact writes three records in a transaction and ends it.
func (f fixture) transact(t *testing.T, how kgo.TransactionEndTry) {
	t.Helper()
	require.NoError(t, f.open(t).EndTransaction(t.Context(), how))
}

func (f fixture) open(t *testing.T) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.Brokers), kgo.TransactionalID("t"), kgo.DefaultProduceTopic(f.topic))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.BeginTransaction())
	for i := range 3 {
		require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord(strconv.Itoa(i))).FirstErr())
	}
	return client
}

// What we have paused, or hold, owes nothing.
func TestTheWatchdogKnowsOurPauses(t *testing.T) {
	for name, c := range map[string]struct {
		window int
		state  string
	}{"full": {20, "full"}, "held with room left": {512, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaultyFixture(t, 1)
			f.produce(100, "")
			gate := shut{make(chan struct{})}
			var handled atomic.Int64
			consumer, log := f.watched(t, func(cfg *kafkaclient.ConsumerConfig) { cfg.Gate, cfg.Window = gate, c.window },
				func(context.Context, kafkaclient.Message) error { handled.Add(1); return nil })
			eventually(t, func() bool { return paused(consumer, c.state) && consumer.State()[0].Unfinished >= min(c.window, 100) })
			<-time.After(4 * stall) // there is no signal for "nothing was said"
			require.Zero(t, log.count(owes))
			close(gate.opened)
			eventually(t, func() bool { return handled.Load() == 100 })
			require.Zero(t, log.count(owes))
		})
	}
}
