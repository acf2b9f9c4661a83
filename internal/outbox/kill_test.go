package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/testkit"
)

var errDead = errors.New("the process is dead")

// mortal is a process with a relay: it has connections of its own and publishes to a broker that outlives it. It dies as
// by kill -9, after so many records: what it sent is at the broker and nobody knows, what it asked of the database may
// be done or not, and its lease is not given back.
type mortal struct {
	*broker
	first chan time.Time // when it began to publish
	died  chan time.Time

	life  sync.Mutex
	left  int
	dead  bool
	conns []net.Conn
}

func newMortal(b *broker, records int) *mortal {
	return &mortal{broker: b, left: records, first: make(chan time.Time, 1), died: make(chan time.Time, 1)}
}

func (m *mortal) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	m.life.Lock()
	defer m.life.Unlock()
	if m.dead && err == nil {
		_ = c.Close()
		return nil, errDead
	}
	m.conns = append(m.conns, c)
	return c, err
}

func (m *mortal) PublishAll(ctx context.Context, rs []kafkaclient.Record) []error {
	m.life.Lock()
	if m.dead {
		m.life.Unlock()
		return all(errDead, len(rs))
	}
	select {
	case m.first <- time.Now():
	default:
	}
	if len(rs) < m.left {
		m.left -= len(rs)
		m.life.Unlock()
		return m.broker.PublishAll(ctx, rs)
	}
	defer m.life.Unlock()
	m.broker.PublishAll(ctx, rs[:m.left])
	m.dead = true
	for _, c := range m.conns {
		_ = c.Close()
	}
	m.died <- time.Now()
	return all(errDead, len(rs))
}

func all(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// run starts the process. It is dead or not when the test ends.
func (m *mortal) run(t *testing.T, url string) {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.ConnConfig.DialFunc = m.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	start(t, newRelay(t, pool, m))
}

// TestKilledRelay: 16 writers commit all the while, and relays are killed at any moment; the next instance takes over. No
// event is lost, and the first copies of each order's events are in the order of their versions.
func TestKilledRelay(t *testing.T) {
	const writers, deaths = 16, 2 // the third lives
	db, b := testkit.Postgres(t), newBroker()
	w := startWriters(t, db.Pool, writers)
	active := newMortal(b, 1+rand.IntN(2000))
	active.run(t, db.URL)
	testkit.Receive(t, active.first, "the first one publishes")
	for death := range deaths {
		standby := newMortal(b, 1+rand.IntN(2000))
		if death == deaths-1 {
			standby.left = 1 << 30
		}
		standby.run(t, db.URL)
		died := testkit.Receive(t, active.died, "it dies")
		takeover := testkit.Receive(t, standby.first, "the next one publishes").Sub(died)
		t.Logf("taken over after %s", takeover.Round(time.Millisecond))
		require.Greater(t, takeover, leaseRenewal, "it gave its lease back: that was no kill")
		require.Less(t, takeover, leaseFor+2*leaseRenewal+2*time.Second, "a lease, the next look at it, and something for a busy machine")
		active = standby
	}
	want := w.stop()
	emptied(t, db.Pool)
	t.Logf("%d events, published %d times", want, len(b.values()))
	require.Equal(t, want, firstCopies(t, b))
}

// firstCopies counts the events, without repetitions, and checks that none overtook an earlier one of its order. Values are
// order/version.
func firstCopies(t *testing.T, b *broker) (n int) {
	t.Helper()
	next := map[string]int{}
	for _, value := range b.values() {
		var order string
		var version int
		_, err := fmt.Sscanf(value, "%36s/%d", &order, &version)
		require.NoError(t, err)
		require.LessOrEqual(t, version, next[order], "%s overtook an earlier event of its order", value)
		if version == next[order] {
			next[order]++
			n++
		}
	}
	return n
}

// crew commits events, each in a transaction that stays open for a while: ids become visible out of order.
type crew struct {
	quit chan struct{}
	stop func() (written int)
}

func startWriters(t *testing.T, pool *pgxpool.Pool, n int) *crew {
	t.Helper()
	counts := make(chan int, n)
	c := &crew{quit: make(chan struct{})}
	c.stop = sync.OnceValue(func() (written int) {
		close(c.quit)
		for range n {
			written += <-counts
		}
		return written
	})
	for range n {
		go func() { counts <- c.write(t, pool) }()
	}
	t.Cleanup(func() { c.stop() })
	return c
}

func (c *crew) write(t *testing.T, pool *pgxpool.Pool) (written int) {
	for {
		order := uuid.New()
		for version := range 1 + rand.IntN(4) {
			select {
			case <-c.quit:
				return written
			default:
			}
			tx, err := pool.Begin(context.Background())
			if err == nil {
				_, err = tx.Exec(context.Background(), `INSERT INTO outbox (event_id, event_type, order_id, payload) VALUES ($1, 'type', $2, $3)`,
					uuid.New(), order, fmt.Appendf(nil, "%s/%d", order, version))
			}
			if err == nil {
				_, err = tx.Exec(context.Background(), `SELECT pg_sleep(random() * 0.02)`)
			}
			if err == nil {
				err = tx.Commit(context.Background())
			}
			if err != nil {
				t.Errorf("write: %v", err)
				return written
			}
			written++
		}
	}
}
