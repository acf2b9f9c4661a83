package kafkaclient_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/testkit"
)

// open is a gate that lets everything pass.
type open struct{}

func (open) Enter(context.Context) (func(), error) { return func() {}, nil }

// again is an error that asks to be handled again.
type again time.Duration

func (again) Error() string            { return "again" }
func (a again) RetryIn() time.Duration { return time.Duration(a) }

// outlived is one that was handled to its end and only waits.
type outlived struct{ again }

func (outlived) Survived() bool { return true }

type fixture struct {
	*testkit.Cluster
	topic, group string
}

func newFixture(t *testing.T, partitions int32) fixture {
	t.Helper()
	k := testkit.Kafka(t)
	f := fixture{k, k.Name("topic"), k.Name("group")}
	k.CreateTopics(partitions, f.topic)
	return f
}

// start runs a consumer; the returned function stops it and waits.
func (f fixture) start(t *testing.T, change func(*kafkaclient.ConsumerConfig), handler kafkaclient.Handler) (*kafkaclient.Consumer, func() error) {
	t.Helper()
	cfg := kafkaclient.ConsumerConfig{
		Client: kafkaclient.Config{Brokers: f.Brokers, ClientID: "test", Extra: map[string]string{"heartbeat.interval.ms": "200"}},
		Topic:  f.topic, Group: f.group, Slots: make(chan struct{}, 64), Gate: open{}, Handler: handler,
		Window: 512, WindowBytes: 16 << 20, Drain: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	c, err := kafkaclient.NewConsumer(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() }) // the test has looked at the error, if it cares
	return c, stop
}

// produce writes n records with the keys in turn; an empty key is none.
func (f fixture) produce(n int, keys ...string) {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: f.topic, Value: []byte(fmt.Sprint(i))}
		if k := keys[i%len(keys)]; k != "" {
			records[i].Key = []byte(k)
		}
	}
	f.Produce(records...)
}

// committed is the sum of the group's offsets, the number of records when no offsets have holes.
func (f fixture) committed(t *testing.T) int64 {
	t.Helper()
	offsets, err := f.Admin.FetchOffsets(t.Context(), f.group)
	require.NoError(t, err)
	var sum int64
	for _, o := range offsets.Sorted() {
		sum += max(0, o.At)
	}
	return sum
}

func keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("key-%d", i)
	}
	return all
}

// Messages of one key are handled one at a time and in order, those of different keys at the same time.
func TestKeysInOrderPartitionsInParallel(t *testing.T) {
	f := newFixture(t, 3)
	const records, keyCount = 3000, 50
	f.produce(records, keys(keyCount)...)
	var mu sync.Mutex
	busy, last, seen := map[string]bool{}, map[string]int64{}, 0
	var running, peak atomic.Int64
	done := make(chan struct{})
	_, stop := f.start(t, nil, func(_ context.Context, m kafkaclient.Message) error {
		if n := running.Add(1); n > peak.Load() {
			peak.Store(n)
		}
		defer running.Add(-1)
		mu.Lock()
		key := string(m.Key)
		if busy[key] {
			t.Errorf("two messages of %s at a time", key)
		}
		if previous, ok := last[key]; ok && m.Offset <= previous {
			t.Errorf("%s out of order", key)
		}
		busy[key], last[key] = true, m.Offset
		mu.Unlock()
		<-time.After(time.Millisecond) // work, so that handlers overlap
		mu.Lock()
		defer mu.Unlock()
		busy[key] = false
		if seen++; seen == records {
			close(done)
		}
		return nil
	})
	testkit.Receive(t, done, "all records to be handled")
	require.NoError(t, stop())
	require.Greater(t, peak.Load(), int64(10))
	require.Equal(t, int64(records), f.committed(t))
}

// An error keeps the offset; the others go on; the message is handled again, here.
func TestAnErrorKeepsTheOffset(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(100, "")
	var failing atomic.Bool
	failing.Store(true)
	var tries, others atomic.Int64
	_, stop := f.start(t, nil, func(_ context.Context, m kafkaclient.Message) error {
		if m.Offset == 10 && failing.Load() {
			if int64(m.Tries) != tries.Load() {
				t.Errorf("tries %d, want %d", m.Tries, tries.Load())
			}
			tries.Add(1)
			return again(10 * time.Millisecond)
		}
		others.Add(1)
		return nil
	})
	eventually(t, func() bool { return others.Load() == 99 && tries.Load() > 3 })
	eventually(t, func() bool { return f.committed(t) == 10 })
	failing.Store(false)
	eventually(t, func() bool { return f.committed(t) == 100 })
	require.NoError(t, stop())
}

// A panic of the broker's kind cannot be made; a handler that hangs can. The stop cuts it, keeps its offset and stays
// within its time; the next start handles the message again.
func TestStopCutsAHangingHandler(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(20, "")
	hanging := make(chan struct{})
	var finished atomic.Int64
	_, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) { c.Drain = 200 * time.Millisecond }, func(ctx context.Context, m kafkaclient.Message) error {
		if m.Offset == 5 {
			close(hanging)
			<-ctx.Done()
			return ctx.Err()
		}
		finished.Add(1)
		return nil
	})
	testkit.Receive(t, hanging, "the handler to hang")
	eventually(t, func() bool { return finished.Load() == 19 })
	began := time.Now()
	require.NoError(t, stop())
	require.Less(t, time.Since(began), 3*time.Second)
	require.Equal(t, int64(5), f.committed(t))

	var again atomic.Int64
	_, stop = f.start(t, nil, func(context.Context, kafkaclient.Message) error { again.Add(1); return nil })
	eventually(t, func() bool { return again.Load() == 15 })
	require.NoError(t, stop())
	require.Equal(t, int64(20), f.committed(t))
}

// A second member comes and goes while messages are handled: every record is handled, the ends are committed, and no
// handler of a handed-over partition runs on.
func TestRebalanceLosesNothing(t *testing.T) {
	f := newFixture(t, 6)
	const records = 6000
	var mu sync.Mutex
	handled := map[string]int{}
	handler := func(_ context.Context, m kafkaclient.Message) error {
		<-time.After(2 * time.Millisecond) // work, so that the rebalance finds some under way
		mu.Lock()
		defer mu.Unlock()
		handled[fmt.Sprintf("%d/%d", m.Partition, m.Offset)]++
		return nil
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(handled) }
	f.produce(records, keys(200)...)
	_, stopFirst := f.start(t, nil, handler)
	eventually(t, func() bool { return count() > records/10 })
	second, stopSecond := f.start(t, nil, handler)
	eventually(t, func() bool { return len(second.State()) == 3 })
	eventually(t, func() bool { return count() > records/2 })
	require.NoError(t, stopSecond())
	eventually(t, func() bool { return count() == records })
	require.NoError(t, stopFirst())
	require.Equal(t, int64(records), f.committed(t))
	twice := 0
	for _, n := range handled {
		twice += n - 1
	}
	t.Logf("%d of %d records handled twice", twice, records)
	require.Less(t, twice, records/10, "a clean handover redelivers little")
}

// Due times: never early; the wait of one partition does not delay another; a full window pauses and wakes by itself.
func TestDue(t *testing.T) {
	f := newFixture(t, 2)
	var records []*kgo.Record
	for i := range 200 { // ManualPartitioner is not in use: the key decides
		records = append(records, &kgo.Record{Topic: f.topic, Key: []byte("a"), Value: fmt.Append(nil, i)})
	}
	f.Produce(records...)
	due := time.Now().Add(1500 * time.Millisecond)
	other := "b"
	for n := 0; ; n++ { // find a key of the other partition
		r := &kgo.Record{Topic: f.topic, Key: fmt.Appendf(nil, "b%d", n)}
		f.Produce(r)
		if r.Partition != records[0].Partition {
			other = string(r.Key)
			break
		}
	}
	var early, waited, prompt atomic.Int64
	promptDone := make(chan struct{})
	c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) {
		c.Window = 20
		c.Due = func(m kafkaclient.Message) (time.Time, bool) {
			if m.Partition == records[0].Partition {
				return due, false
			}
			return time.Time{}, false
		}
	}, func(_ context.Context, m kafkaclient.Message) error {
		if string(m.Key) == other {
			if time.Now().After(due) {
				t.Error("delayed by another partition")
			}
			if prompt.Add(1) == 1 {
				close(promptDone)
			}
			return nil
		}
		if m.Partition == records[0].Partition && time.Now().Before(due) {
			early.Add(1)
		}
		waited.Add(1)
		return nil
	})
	testkit.Receive(t, promptDone, "the other partition")
	eventually(t, func() bool {
		for _, s := range c.State() {
			if s.Paused == "waiting" && s.Unfinished >= 20 {
				return true
			}
		}
		return false
	})
	eventually(t, func() bool { return waited.Load() >= 200 })
	require.Zero(t, early.Load())
	require.NoError(t, stop())
}

// Records whose due time cannot be right wait, but never more than they were told, and a window full of them keeps nobody
// else waiting (hazard H24).
func TestOddDueTimesKeepNobodyWaiting(t *testing.T) {
	const window, wait = 20, 1500 * time.Millisecond
	f := newFixture(t, 1)
	f.produce(3*window, "odd")
	f.produce(window, "plain")
	began := time.Now()
	var odd, plain atomic.Int64
	plainDone := make(chan struct{})
	c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) {
		c.Window = window
		c.Due = func(m kafkaclient.Message) (time.Time, bool) {
			if string(m.Key) == "odd" {
				return m.Received.Add(wait), true
			}
			return time.Time{}, false
		}
	}, func(_ context.Context, m kafkaclient.Message) error {
		switch {
		case string(m.Key) == "odd":
			odd.Add(1)
		case plain.Add(1) == window:
			close(plainDone)
		}
		return nil
	})
	testkit.Receive(t, plainDone, "the others")
	require.Zero(t, odd.Load())
	require.Less(t, time.Since(began), wait)
	eventually(t, func() bool { return c.State()[0].Paused == "" }) // the others, being as many as the window has places, may have paused it
	eventually(t, func() bool { return odd.Load() == 3*window })
	require.NoError(t, stop())
	require.Equal(t, int64(4*window), f.committed(t))
}

// shut blocks until it is opened, like a held line.
type shut struct{ opened chan struct{} }

func (s shut) Enter(ctx context.Context) (func(), error) {
	select {
	case <-s.opened:
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A held line: partitions pause with a reason, polling goes on past max.poll.interval.ms without a rebalance, memory stays
// within the window, and all is handled once the line opens.
func TestHeldLineKeepsPolling(t *testing.T) {
	f := newFixture(t, 2)
	const records = 2000
	f.produce(records, "")
	gate := shut{make(chan struct{})}
	var handled atomic.Int64
	c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) {
		c.Gate, c.Window = gate, 100
		c.Client.Extra["session.timeout.ms"] = "6000"
		c.Client.Extra["max.poll.interval.ms"] = "6000"
	}, func(context.Context, kafkaclient.Message) error { handled.Add(1); return nil })
	paused := func() bool {
		states := c.State()
		for _, s := range states {
			if s.Paused != "full" {
				return false
			}
		}
		return len(states) == 2
	}
	eventually(t, paused)
	<-time.After(7 * time.Second) // longer than max.poll.interval.ms: there is no signal for "nothing happened"
	require.True(t, paused(), "no rebalance took the partitions away")
	close(gate.opened)
	eventually(t, func() bool { return handled.Load() == records })
	require.NoError(t, stop())
	require.Equal(t, int64(records), f.committed(t))
}

// Headers take memory, too: a record of many small ones takes thirty times what it has on the wire.
func TestHeadersCountAgainstTheWindow(t *testing.T) {
	f := newFixture(t, 1)
	const records = 60
	many := make([]kgo.RecordHeader, 5_000)
	for i := range many {
		many[i].Key = "h"
	}
	for range records {
		f.Produce(&kgo.Record{Topic: f.topic, Headers: many})
	}
	gate := shut{make(chan struct{})}
	var handled atomic.Int64
	c, _ := f.start(t, func(c *kafkaclient.ConsumerConfig) {
		c.Gate, c.WindowBytes = gate, 4<<20
	}, func(context.Context, kafkaclient.Message) error { handled.Add(1); return nil })
	eventually(t, func() bool { s := c.State(); return len(s) == 1 && s[0].Paused == "full" })
	require.Less(t, c.State()[0].Unfinished, 15, "5,000 headers take half a megabyte")
	close(gate.opened)
	eventually(t, func() bool { return handled.Load() == records })
}

// Offsets do not move while the progress cannot be noted, and no range is noted twice or left out.
func TestProgressComesBeforeTheOffset(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(50, "")
	var down atomic.Bool
	down.Store(true)
	var mu sync.Mutex
	var next, counted, refused int64
	_, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) {
		c.Progress = func(_ context.Context, ps []kafkaclient.Progress) error {
			mu.Lock()
			defer mu.Unlock()
			if down.Load() {
				refused++
				return errors.New("database gone")
			}
			for _, p := range ps {
				if p.Runs[0].From != next {
					t.Errorf("range from %d, want %d", p.Runs[0].From, next)
				}
				next, counted = p.Next, counted+p.Records()
			}
			return nil
		}
	}, func(context.Context, kafkaclient.Message) error { return nil })
	eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return refused >= 3 })
	require.Zero(t, f.committed(t))
	down.Store(false)
	eventually(t, func() bool { return f.committed(t) == 50 })
	require.NoError(t, stop())
	require.Equal(t, int64(50), counted)
}

func TestProducer(t *testing.T) {
	f := newFixture(t, 3)
	p, err := kafkaclient.NewProducer(kafkaclient.Config{Brokers: f.Brokers, ClientID: "test"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer p.Close(time.Second)
	headers := []kafkaclient.Header{{Key: "a", Value: []byte{0, 255}}, {Key: "a", Value: nil}}
	require.NoError(t, p.Publish(t.Context(), kafkaclient.Record{Topic: f.topic, Key: []byte("k"), Value: []byte("v"), Headers: headers}))
	got := f.Consume(f.topic, 1)[0]
	require.Equal(t, "k", string(got.Key))
	require.Equal(t, "v", string(got.Value))
	require.Len(t, got.Headers, 2)
	require.Equal(t, []byte{0, 255}, got.Headers[0].Value)

	tooLarge := make([]byte, 2<<20)
	_, _ = rand.Read(tooLarge) // it never fails; zeros would be compressed below the limit
	errs := p.PublishAll(t.Context(), []kafkaclient.Record{
		{Topic: f.topic, Key: []byte("1")}, {Topic: f.topic, Value: tooLarge}, {Topic: f.topic, Key: []byte("3")},
	})
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], kafkaclient.ErrTooLarge)
	require.NoError(t, errs[2])

	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Error(t, p.Publish(short, kafkaclient.Record{Topic: f.Name("no-such-topic")}), "nothing is created by writing to it")
}

func TestReaderAndAdmin(t *testing.T) {
	f := newFixture(t, 2)
	f.produce(10, keys(10)...)
	r, err := kafkaclient.NewReader(kafkaclient.Config{Brokers: f.Brokers, ClientID: "test"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer r.Close()
	topics, err := r.Topics(t.Context(), []string{f.topic, f.Name("missing")}, kafkaclient.PlanConfigs...)
	require.NoError(t, err)
	require.Len(t, topics, 1)
	require.Equal(t, 2, topics[f.topic].Partitions)
	require.NotZero(t, topics[f.topic].ID)
	ends, err := r.Ends(t.Context(), f.topic)
	require.NoError(t, err)
	require.Equal(t, int64(10), ends[0]+ends[1])
	starts, err := r.Starts(t.Context(), f.topic)
	require.NoError(t, err)
	require.Equal(t, map[int32]int64{0: 0, 1: 0}, starts)
	read := 0
	stop := errors.New("enough")
	require.ErrorIs(t, r.ReadFrom(t.Context(), f.topic, starts, func(kafkaclient.Message) error {
		read++
		return nil
	}, func(p int32, next int64) error {
		if require.Equal(t, ends[p], next); read == 10 {
			return stop
		}
		return nil
	}), stop)
	require.Equal(t, 10, read)
	_, err = r.Committed(t.Context(), f.group, f.topic, 2)
	require.NoError(t, err)
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	testkit.Eventually(t, holds, "what the test waits for")
}

// A topic that gets more partitions is read in all of them within seconds.
func TestNewPartitionsAreRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	handled := make(chan int32, 2)
	f.start(t, nil, func(_ context.Context, m kafkaclient.Message) error {
		handled <- m.Partition
		return nil
	})
	f.produce(1, "")
	require.Zero(t, testkit.Receive(t, handled, "the record of the old partition"))
	grown, err := f.Admin.CreatePartitions(t.Context(), 1, f.topic)
	require.NoError(t, err)
	require.NoError(t, grown.Error())
	f.produceTo(t, 1)
	require.EqualValues(t, 1, testkit.Receive(t, handled, "the record of the new partition"))
}

// produceTo writes a record to the partition, with a client that knows of it.
func (f fixture) produceTo(t *testing.T, partition int32) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.Brokers), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: f.topic, Partition: partition, Value: []byte("v")}).FirstErr())
}
