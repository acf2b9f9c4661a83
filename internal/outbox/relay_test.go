package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/testkit"
)

// broker is a publisher that keeps what it acknowledged, and fails or hangs on demand.
type broker struct {
	refuse func(value string) bool // nil: nothing
	hang   chan struct{}           // not nil: publish, but acknowledge nothing until it is closed or the caller gives up

	mu     sync.Mutex
	log    []kafkaclient.Record // what a consumer reads
	acked  chan struct{}        // a signal for each call
	called int
}

func newBroker() *broker { return &broker{acked: make(chan struct{}, 1<<16)} }

func (b *broker) PublishAll(ctx context.Context, rs []kafkaclient.Record) []error {
	errs := make([]error, len(rs))
	b.mu.Lock()
	b.called++
	for i, r := range rs {
		if b.refuse != nil && b.refuse(string(r.Value)) {
			errs[i] = errors.New("refused")
			continue
		}
		b.log = append(b.log, r)
	}
	b.mu.Unlock()
	b.acked <- struct{}{}
	if b.hang != nil {
		select {
		case <-b.hang:
		case <-ctx.Done():
			for i := range errs {
				errs[i] = ctx.Err()
			}
		}
	}
	return errs
}

func (b *broker) values() (values []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.log {
		values = append(values, string(r.Value))
	}
	return values
}

func newRelay(t testing.TB, pool *pgxpool.Pool, p Publisher) *Relay {
	t.Helper()
	r, err := New(Config{Pool: pool, Publisher: p, Topic: "billing.charges", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return r
}

// start runs the relay until the returned function, at the latest until the test ends.
func start(t testing.TB, r *Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx); close(ended) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, testkit.Receive(t, ended, "the relay has stopped"))
	})
	t.Cleanup(stop)
	return stop
}

// add commits one event.
func add(t testing.TB, pool *pgxpool.Pool, order uuid.UUID, value string) {
	t.Helper()
	_, err := pool.Exec(context.Background(), `INSERT INTO outbox (event_id, event_type, order_id, payload, traceparent)
		VALUES ($1, 'billing.charge.succeeded.v1', $2, $3, 'trace')`, uuid.New(), order, []byte(value))
	require.NoError(t, err)
}

func emptied(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	testkit.Eventually(t, func() bool { return unpublished(t, pool) == 0 }, "the outbox is empty")
}

func unpublished(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(context.Background(), `SELECT count(*) FROM outbox`).Scan(&n))
	return n
}

func TestRecord(t *testing.T) {
	db, b := testkit.Postgres(t), newBroker()
	order := uuid.New()
	add(t, db.Pool, order, "payload")
	start(t, newRelay(t, db.Pool, b))
	emptied(t, db.Pool)
	require.Len(t, b.log, 1)
	r := b.log[0]
	require.Equal(t, "billing.charges", r.Topic)
	require.Equal(t, order.String(), string(r.Key))
	require.Equal(t, "payload", string(r.Value))
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	require.Len(t, headers, 3)
	require.Equal(t, "billing.charge.succeeded.v1", headers["event_type"])
	require.Equal(t, "trace", headers["traceparent"])
	require.NoError(t, uuid.Validate(headers["event_id"]))
}

func TestNotifyWakesTheRelay(t *testing.T) {
	db, b := testkit.Postgres(t), newBroker()
	r := newRelay(t, db.Pool, b)
	start(t, r)
	for i := range 5 {
		add(t, db.Pool, uuid.New(), fmt.Sprint(i))
		r.Notify()
		testkit.Receive(t, b.acked, "published")
	}
	add(t, db.Pool, uuid.New(), "from another instance, which cannot wake us")
	testkit.Receive(t, b.acked, "published")
}

// TestFailedEventHoldsItsOrder: only its order. Later events of it wait, also those that are committed afterwards.
func TestFailedEventHoldsItsOrder(t *testing.T) {
	db, b := testkit.Postgres(t), newBroker()
	var open bool // guarded by b.mu
	b.refuse = func(value string) bool { return value == "bad 1" && !open }
	bad := uuid.New()
	add(t, db.Pool, bad, "bad 1")
	add(t, db.Pool, bad, "bad 2")
	for i := range 700 { // more than a batch
		add(t, db.Pool, uuid.New(), fmt.Sprintf("good %d", i))
	}
	start(t, newRelay(t, db.Pool, b))
	testkit.Eventually(t, func() bool { return unpublished(t, db.Pool) == 2 }, "the others are out")
	add(t, db.Pool, bad, "bad 3")
	add(t, db.Pool, uuid.New(), "good again")
	testkit.Eventually(t, func() bool { return slices.Contains(b.values(), "good again") }, "the line goes on")
	require.Len(t, b.values(), 701)

	b.mu.Lock()
	open = true
	b.mu.Unlock()
	emptied(t, db.Pool)
	require.Equal(t, []string{"bad 1", "bad 2", "bad 3"}, b.values()[701:])
}

// TestStopPublishesWhatIsThere: what is under way at the stop is not cut, and what the last settlements wrote meanwhile
// follows, also later events of one order, which wait for each other.
func TestStopPublishesWhatIsThere(t *testing.T) {
	db, b := testkit.Postgres(t), newBroker()
	b.hang = make(chan struct{})
	order := uuid.New()
	add(t, db.Pool, order, "1")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	r := newRelay(t, db.Pool, b)
	go func() { ended <- r.Run(ctx) }()
	testkit.Receive(t, b.acked, "it is publishing")
	add(t, db.Pool, order, "2")
	add(t, db.Pool, order, "3")
	stop()
	close(b.hang)
	require.NoError(t, testkit.Receive(t, ended, "the relay has stopped"))
	require.Equal(t, []string{"1", "2", "3"}, b.values())
	require.Zero(t, unpublished(t, db.Pool))
}

// TestStopWithADeadBroker: it ends within a moment, and the events are there for the next.
func TestStopWithADeadBroker(t *testing.T) {
	db, b := testkit.Postgres(t), newBroker()
	b.hang = make(chan struct{})
	add(t, db.Pool, uuid.New(), "1")
	stop := start(t, newRelay(t, db.Pool, b))
	testkit.Receive(t, b.acked, "it is publishing")
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), 4*lastRounds)
	var tries int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT tries FROM outbox`).Scan(&tries))
	require.Zero(t, tries, "a stop is no failure")
}

func TestBrokerDown(t *testing.T) {
	db, b := testkit.Postgres(t), newBroker()
	down := true // guarded by b.mu
	b.refuse = func(string) bool { return down }
	for i := range 20 {
		add(t, db.Pool, uuid.New(), fmt.Sprint(i))
	}
	r := newRelay(t, db.Pool, b)
	start(t, r)
	testkit.Receive(t, b.acked, "a try")
	testkit.Eventually(t, func() bool {
		var n int
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox WHERE tries > 0 AND next_try_at > now()`).Scan(&n))
		return n == 20
	}, "all were put off")
	s, err := r.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, s.Unpublished)
	require.Positive(t, s.Oldest)
	b.mu.Lock()
	down = false
	b.mu.Unlock()
	emptied(t, db.Pool)
	require.Len(t, b.values(), 20)
}

// TestOneRelayIsActive: a second one waits for the first to end, and then takes over at once. One that died without a word
// is followed when its lease has ended.
func TestOneRelayIsActive(t *testing.T) {
	db := testkit.Postgres(t)
	first, second := newBroker(), newBroker()
	stopFirst := start(t, newRelay(t, db.Pool, first))
	add(t, db.Pool, uuid.New(), "1")
	testkit.Receive(t, first.acked, "the first publishes")
	start(t, newRelay(t, db.Pool, second))
	add(t, db.Pool, uuid.New(), "2")
	testkit.Receive(t, first.acked, "the first still publishes")
	require.Empty(t, second.values())
	stopFirst()
	add(t, db.Pool, uuid.New(), "3")
	testkit.Receive(t, second.acked, "the second has taken over")

	_, err := db.Pool.Exec(t.Context(), `UPDATE leases SET owner = gen_random_uuid(), expires_at = now() + interval '4 seconds'`)
	require.NoError(t, err)
	taken := time.Now()
	testkit.Eventually(t, func() bool {
		var mine bool
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT expires_at < now() FROM leases`).Scan(&mine))
		return mine
	}, "the dead instance's lease ends")
	add(t, db.Pool, uuid.New(), "4")
	testkit.Receive(t, second.acked, "the second has taken over again")
	require.Less(t, time.Since(taken), 6*time.Second)
}

// TestStoppedWithoutAcknowledgement: relays are stopped in the middle of their publishing: what they sent is at the broker,
// its acknowledgement never arrives. Meanwhile 16 writers commit.
func TestStoppedWithoutAcknowledgement(t *testing.T) {
	db, b := testkit.Postgres(t), newBroker()
	b.hang = make(chan struct{})
	w := startWriters(t, db.Pool, 16)
	for range 5 {
		stop := start(t, newRelay(t, db.Pool, b))
		testkit.Receive(t, b.acked, "it has sent a batch")
		stop()
	}
	want := w.stop()
	close(b.hang)
	start(t, newRelay(t, db.Pool, b))
	emptied(t, db.Pool)
	require.Equal(t, want, firstCopies(t, b))
}
