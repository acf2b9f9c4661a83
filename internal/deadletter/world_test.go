package deadletter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/audit"
	"example.com/billing/internal/billing"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
	"example.com/billing/internal/testkit"
)

// world is a ladder on a real broker with the working list on a real database.
type world struct {
	t         *testing.T
	kafka     *testkit.Cluster
	db        *testkit.Database
	ladder    retry.Ladder
	reader    *kafkaclient.Reader
	publisher *kafkaclient.Producer
	list      *deadletter.List
	log       *slog.Logger
	held      failure.Reason // of the line; empty: it runs
	maxAge    time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, kafka: testkit.Kafka(t), db: testkit.Postgres(t), log: slog.New(slog.DiscardHandler)}
	w.ladder = retry.NewLadder(w.kafka.Name("orders"), w.kafka.Name("billing"), []time.Duration{5 * time.Second, 30 * time.Second})
	w.kafka.CreateTopics(3, w.ladder.Topics()...)
	var err error
	w.reader, err = kafkaclient.NewReader(kafkaclient.Config{Brokers: w.kafka.Brokers}, w.log)
	require.NoError(t, err)
	t.Cleanup(w.reader.Close)
	w.publisher, err = kafkaclient.NewProducer(kafkaclient.Config{Brokers: w.kafka.Brokers}, w.log)
	require.NoError(t, err)
	t.Cleanup(func() { w.publisher.Close(time.Second) })
	w.list = deadletter.NewList(w.db.Pool)
	return w
}

// ingest lists until the returned function is called or the test ends.
func (w *world) ingest(lease time.Duration) (stop func()) {
	w.t.Helper()
	cfg := deadletter.IngesterConfig{Topic: w.ladder.DeadLetters(), Main: w.ladder.Main(), Lease: lease, Log: w.log}
	ingester, err := deadletter.NewIngester(cfg, w.db.Pool, w.reader, w.reader, decode)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = ingester.Run(ctx) // always nil
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		testkit.Receive(w.t, done, "the ingester stops")
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) replayer(p deadletter.Publisher) *deadletter.Replayer {
	w.t.Helper()
	r, err := deadletter.NewReplayer(deadletter.ReplayerConfig{
		Ladder: w.ladder, Ceiling: 5, Environment: "test", Clock: time.Now, Log: w.log, ListWait: testkit.Patience,
		MaxAge: w.maxAge, Held: func() failure.Reason { return w.held },
	}, w.db.Pool, w.reader, deadletter.NewRecords(w.db.Pool, w.reader, w.reader), p)
	require.NoError(w.t, err)
	return r
}

func (w *world) request(places ...deadletter.Place) deadletter.Request {
	return deadletter.Request{
		Topic: w.ladder.DeadLetters(), Messages: places, Actor: audit.Actor{Name: "alice", Role: "operator"}, Reason: "provider is back", RequestID: "req-1",
	}
}

// dead is a dead letter of the order as the router writes it. Pairs of headers replace those of that name; an empty value
// takes the header away.
func (w *world) dead(order uuid.UUID, originOffset int64, headers ...string) *kgo.Record {
	set := map[string]string{
		retry.HeaderAttempt: "4", retry.HeaderOriginalTopic: w.ladder.Main(), retry.HeaderOriginalPartition: "1",
		retry.HeaderOriginalOffset: strconv.FormatInt(originOffset, 10), retry.HeaderOriginalTimestamp: "1767366000000",
		retry.HeaderFirstFailureAt: "1767366001000", retry.HeaderError: "provider_5xx: 503", retry.HeaderErrorClass: "exhausted",
		retry.HeaderErrorReason: "provider_5xx", retry.HeaderTraceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "shop": "eu",
	}
	for i := 0; i < len(headers); i += 2 {
		if set[headers[i]] = headers[i+1]; headers[i+1] == "" {
			delete(set, headers[i])
		}
	}
	r := &kgo.Record{Topic: w.ladder.DeadLetters(), Key: []byte(order.String()), Value: fmt.Appendf(nil, `{"order_id":%q,"minor":14990}`, order)}
	for k, v := range set {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	return r
}

// listed waits until so many letters are on the list, and returns them oldest first.
func (w *world) listed(n int) []deadletter.Letter {
	w.t.Helper()
	var letters []deadletter.Letter
	testkit.Eventually(w.t, func() bool {
		found, err := w.list.Find(w.t.Context(), w.ladder.DeadLetters(), deadletter.Filter{Limit: 10000})
		letters = found
		return err == nil && len(found) == n
	}, "%d letters on the list", n)
	return letters
}

func (w *world) letter(r *kgo.Record) deadletter.Letter {
	w.t.Helper()
	l, err := w.list.At(w.t.Context(), r.Topic, place(r))
	require.NoError(w.t, err)
	return l
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.db.Pool.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
}

// fate is the fate of the record of the main topic, empty when there is none.
func (w *world) fate(originOffset int64) (fate string) {
	w.t.Helper()
	err := w.db.Pool.QueryRow(w.t.Context(), `SELECT coalesce(max(fate), '') FROM record_fates WHERE partition = 1 AND "offset" = $1`, originOffset).Scan(&fate)
	require.NoError(w.t, err)
	return fate
}

// charge is a row of the order in a final or waiting state.
func (w *world) charge(order uuid.UUID, state string, unknown bool) uuid.UUID {
	w.t.Helper()
	key := billing.IdempotencyKey("test", "acme", order, 1)
	w.exec(`INSERT INTO charges (order_id, event_id, customer_id, amount_minor, currency, fingerprint, idempotency_key, provider_account, state, reason,
			outcome_unknown, first_sent_at, last_sent_at, origin_topic_id, origin_partition, origin_offset, finalized_at)
		VALUES ($1, $1, $1, 14990, 'EUR', sha256('x'), $2, 'acme', $3, 'provider_bad_request', $4, now() - interval '1 s', now(), $1, 1, 1,
			CASE WHEN $3 IN ('declined', 'rejected') THEN now() END)`, order, key, state, unknown)
	return key
}

func place(r *kgo.Record) deadletter.Place {
	return deadletter.Place{Partition: r.Partition, Offset: r.Offset}
}

// decode stands for the decoder of package orders.
func decode(value []byte) (uuid.UUID, billing.Money) {
	var v struct {
		Order uuid.UUID `json:"order_id"`
		Minor int64     `json:"minor"`
	}
	if json.Unmarshal(value, &v) != nil || v.Minor == 0 {
		return v.Order, billing.Money{}
	}
	return v.Order, billing.Money{Minor: v.Minor, Currency: "EUR"}
}
