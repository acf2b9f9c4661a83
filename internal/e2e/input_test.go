package e2e

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/loadgen"
)

// inputs makes one event of each kind: bad ones, or correct ones that are easily got wrong.
func (w *world) inputs(bad, odd float64) (events []loadgen.Event) {
	w.t.Helper()
	g, err := loadgen.New(loadgen.Config{Topic: w.main, Seed: rand.Uint64(), Bad: bad, Odd: odd})
	require.NoError(w.t, err)
	seen := map[string]bool{}
	for e := g.Next(); !seen[e.Kind]; e = g.Next() {
		seen[e.Kind] = true
		events = append(events, e)
	}
	return events
}

func asRecord(e loadgen.Event) *kgo.Record {
	r := &kgo.Record{Topic: e.Record.Topic, Key: e.Record.Key, Value: e.Record.Value}
	for _, h := range e.Record.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return r
}

// Every kind of bad input stands between two good orders on the same partition.
func TestBadInputDiesAloneAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	warm := w.newOrder() // the service has its partitions
	w.produce(warm)
	w.awaitCharged(warm)

	bad := w.inputs(1, 0)
	require.GreaterOrEqual(t, len(bad), 33, "kinds of bad input")
	good := w.newOrders(len(bad) + 1)
	records := []*kgo.Record{good[0].record(w.main)}
	for i, e := range bad {
		records = append(records, asRecord(e), good[i+1].record(w.main))
	}
	w.kafka.Produce(records...)
	produced := time.Now()
	w.await(func() bool { return len(w.tail.all(w.dlq)) == len(bad) }, "%d dead letters", len(bad))
	require.Less(t, time.Since(produced), 5*time.Second, "a second, and something for a machine that is busy with other tests")
	w.awaitCharged(good...)

	for i, e := range bad {
		t.Run(e.Kind, func(t *testing.T) {
			w := w.in(t)
			letter := w.awaitDeath(string(e.Record.Key))
			w.standsFor(letter, records[2*i+1])
			require.Equal(t, string(e.Want.Reason), header(letter, "x-error-reason"))
			require.Equal(t, "invalid", header(letter, "x-error-class"))
			require.Equal(t, "1", header(letter, "x-retry-attempt"))
		})
	}
	w.chargedOnce(append(good, warm)...)
	b := w.settled()
	require.EqualValues(t, len(bad), b.Dead)
	require.Equal(t, len(bad), w.kafka.Count(w.dlq), "one dead letter each")
}

func (w *world) awaitDeath(key string) *kgo.Record {
	w.t.Helper()
	w.await(func() bool { return len(w.tail.of(w.dlq, key)) == 1 }, "dead letter with key %q", key)
	return w.tail.of(w.dlq, key)[0]
}

func TestOddButCorrectInputIsChargedExactly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	odd := w.inputs(0, 1)
	require.GreaterOrEqual(t, len(odd), 15, "kinds of odd input")
	for _, e := range odd {
		w.kafka.Produce(asRecord(e))
	}
	for _, e := range odd {
		t.Run(e.Kind, func(t *testing.T) {
			w := w.in(t)
			o := order{id: e.OrderID}
			w.awaitCharged(o)
			charges := w.provider.chargesOf(o)
			require.Len(t, charges, 1)
			require.Equal(t, e.Want.Amount.Decimal(), charges[0].Amount)
			require.Equal(t, e.Want.Amount.Currency, charges[0].Currency)
			require.Len(t, w.provider.requestsOf(o), 1)
		})
	}
	w.settled()
	w.nowhere()
}

// A wrong clock at the producer's decides nothing: an old record is looked up before it is sent, and that is all.
func TestRecordTimestampsDecideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Apache Kafka refuses timestamps more than an hour ahead unless the topic allows them.
	allow := kadm.AlterConfig{Op: kadm.SetConfig, Name: "message.timestamp.after.max.ms", Value: kadm.StringPtr(strconv.FormatInt(math.MaxInt64, 10))}
	_, err := w.kafka.Admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{allow}, w.main)
	require.NoError(t, err)
	w.start()
	for _, at := range []time.Time{time.Unix(0, 0), time.Date(1970, 6, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)} {
		o, failing := w.newOrder(), w.newOrder()
		w.provider.script(failing, refuses(500, ""))
		one, two := o.record(w.main), failing.record(w.main)
		one.Timestamp, two.Timestamp = at, at
		w.kafka.Produce(one, two)
		w.awaitCharged(o, failing) // the retry is not put off to 2100
		w.chargedOnceOf(o, failing)
		require.Equal(t, 1, w.provider.lookupsOf(o), "a record of a wrong time may have been sent by a database that was lost")
	}
	w.settled()
}

func (w *world) chargedOnceOf(os ...order) {
	w.t.Helper()
	for _, o := range os {
		require.Len(w.t, w.provider.chargesOf(o), 1)
	}
}

// Anybody may write headers on the main topic: broken ones count for nothing, and none may speak of another record.
func TestForgedHeadersChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	forged := map[string]string{
		"x-retry-attempt": "-7", "x-original-topic": "elsewhere", "x-original-partition": "0", "x-original-offset": "1",
		"x-not-before": "4102444800000", "x-replay-count": "999999", "x-error": "x", "x-first-failure-at": "abc",
	}
	o := w.newOrder()
	w.provider.script(o, refuses(500, ""))
	r := o.record(w.main)
	for key, value := range forged {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "tenant", Value: []byte("blue")}, kgo.RecordHeader{Key: "traceparent", Value: []byte(traceparent)})
	w.kafka.Produce(r)
	retried := w.awaitOne(w.tiers[0], o)
	w.standsFor(retried, r)
	require.Equal(t, "1", header(retried, "x-retry-attempt"))
	require.Empty(t, header(retried, "x-replay-count"))
	require.Equal(t, "blue", header(retried, "tenant"), "foreign headers travel on")
	require.Equal(t, traceparent, header(retried, "traceparent"))
	w.awaitCharged(o)
	require.Equal(t, traceparent, w.provider.requestsOf(o)[1].traceparent, "also to the provider, after a hop")
	w.settled()
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A payload shows in no log, whatever is wrong with it.
func TestLogsHoldNoPayload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start("BILLING_LOG_LEVEL=debug")
	for _, value := range []string{
		"Jane Doe, 5 Elm Street", `{"event_id":"Jane Doe"}`, `["Jane Doe"]`, `{"Jane Doe":1,"Jane Doe":2}`,
		`{"event_id":"` + uuid.NewString() + `","order_id":"Jane Doe","customer_id":"Jane Doe","total_amount":"1.00"}`,
	} {
		w.kafka.Produce(&kgo.Record{Topic: w.main, Key: []byte("key of Jane"), Value: []byte(value)})
	}
	o := w.newOrder()
	w.provider.script(o, refuses(400, "for "+w.customer.String()))
	w.produce(o)
	w.await(func() bool { return len(w.tail.all(w.dlq)) == 6 }, "6 dead letters")
	for _, letter := range w.tail.all(w.dlq) {
		require.NotContains(t, header(letter, "x-error"), "Jane")
		require.NotContains(t, header(letter, "x-error"), w.customer.String())
	}
	i.stop()
	require.NotContains(t, i.log.text(), "Jane")
	require.Equal(t, 6, len(i.log.lines())-len(i.log.without("message dead")), "one line for each decision")
}

// without are the lines with other messages.
func (l *logBook) without(msg string) (others []map[string]any) {
	for _, line := range l.lines() {
		if line["msg"] != msg {
			others = append(others, line)
		}
	}
	return others
}
