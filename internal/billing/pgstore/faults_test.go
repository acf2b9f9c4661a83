package pgstore

import (
	"context"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/testkit"
)

// TestKilledSessions: sessions are ended all the time in the middle of load. Each caller does what the service does: it
// claims again after an error, and hands the same settlement in until it is written. Nothing may be lost or doubled.
func TestKilledSessions(t *testing.T) {
	const callers, enough = 32, 60
	f := newFixture(t)
	ctx, stop := context.WithCancel(t.Context())
	var killer, load sync.WaitGroup
	var killed, charged atomic.Int64
	killer.Go(func() {
		for ctx.Err() == nil {
			var n int
			require.NoError(t, f.other.QueryRow(context.WithoutCancel(ctx), `
				SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity, pg_sleep(0.02)
				WHERE datname = current_database() AND application_name = 'billing'`).Scan(&n))
			killed.Add(int64(n))
		}
	})
	for range callers {
		load.Go(func() {
			for killed.Load() < enough {
				f.chargeThroughTrouble(t, f.order())
				charged.Add(1)
			}
		})
	}
	load.Wait()
	stop()
	killer.Wait()

	orders := int(charged.Load())
	t.Logf("%d orders, %d killed sessions", orders, killed.Load())
	require.Equal(t, orders, f.count(t, `SELECT count(*) FROM charges WHERE state = 'succeeded'`))
	require.Equal(t, orders, f.count(t, `SELECT count(*) FROM outbox`))
	require.Equal(t, orders, f.count(t, `SELECT count(DISTINCT order_id) FROM outbox`))
	require.Equal(t, orders, f.count(t, `SELECT count(*) FROM charge_attempts WHERE reason IS NULL`))
	require.Zero(t, f.count(t, `SELECT count(*) FROM (SELECT FROM charge_attempts GROUP BY claim_id HAVING count(*) > 1) twice`))
	require.Zero(t, f.count(t, `SELECT count(*) FROM charge_anomalies`))
}

// chargeThroughTrouble charges one order as a caller that nothing can discourage.
func (f *fixture) chargeThroughTrouble(t *testing.T, o billing.Order) {
	ctx := t.Context()
	var c *billing.Claim
	for c == nil {
		claim, standing, err := f.Claim(ctx, o)
		switch {
		case err != nil:
			requireReason(t, failure.DatabaseDown, err)
		case standing != nil: // the claim was committed and its answer lost for good: the lease must end
			require.Equal(t, billing.InFlight, standing.State)
			_, err := f.other.Exec(ctx, `UPDATE charges SET lease_until = now() - interval '1 second' WHERE order_id = $1`, o.ID)
			require.NoError(t, err)
		}
		c = claim
	}
	end := succeeded(c, "ch_"+c.Key.String())
	for {
		held, err := f.Settle(ctx, c, end)
		if err == nil {
			require.True(t, held)
			return
		}
		requireReason(t, failure.DatabaseDown, err)
	}
}

// TestLostAnswers: the server commits and the answer is lost on the way, for the claim and for the settlement. pgx cannot
// tell that from a statement that never arrived.
func TestLostAnswers(t *testing.T) {
	db := testkit.Postgres(t)
	line := newLine(t, db.URL)
	pool := openPool(t, line.url)
	var clock atomic.Int64
	store := startStore(t, pool, func(c *Config) { c.Clock = func() time.Time { clock.Add(1); return time.Now() } })
	f := &fixture{Store: store, pool: pool, other: db.Pool}
	warm := f.mustClaim(t, f.order()) // from now on the statements are prepared: the next answer is that of the execution
	f.mustSettle(t, warm, succeeded(warm, "ch_0"))

	line.loseNextAnswer.Store(true)
	clock.Store(0)
	c := f.mustClaim(t, f.order())
	require.False(t, line.loseNextAnswer.Load(), "an answer was lost")
	require.EqualValues(t, 1, clock.Load(), "the time to send counts from the first try, which took the lease (H1)")
	require.True(t, c.Fresh)
	require.False(t, c.Unknown)
	require.Equal(t, 1, c.Attempt)

	second := f.mustClaim(t, f.order()) // on the new connection
	f.mustSettle(t, second, succeeded(second, "ch_2"))
	line.loseNextAnswer.Store(true)
	require.True(t, f.mustSettle(t, c, succeeded(c, "ch_1")), "held when it was written")
	require.False(t, line.loseNextAnswer.Load())
	require.Len(t, f.history(t, c.Order).Past, 1)
	require.Len(t, f.events(t, c.Order), 1)
}

// line stands between the pool and the server, and can lose an answer together with the connection.
type line struct {
	url            string
	loseNextAnswer atomic.Bool
}

func newLine(t *testing.T, target string) *line {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	server := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	l := &line{url: u.String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go func() { _, _ = io.Copy(upstream, client); upstream.Close() }()
			go l.answers(client, upstream)
		}
	}()
	return l
}

func (l *line) answers(client, upstream net.Conn) {
	defer client.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := upstream.Read(buf)
		if err != nil || n > 0 && l.loseNextAnswer.CompareAndSwap(true, false) {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestUpdatesStayOnTheirPage: a settlement that moved its row would touch the index too and double the log (HOT).
func TestUpdatesStayOnTheirPage(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 40 {
				c := f.mustClaim(t, f.order())
				f.mustSettle(t, c, unknown(failure.ProviderTimeout))
				c = f.mustClaim(t, c.Order)
				f.mustSettle(t, c, succeeded(c, "ch_"+c.ID.String()))
			}
		})
	}
	wg.Wait()
	const updates = 64 * 40 * 3
	var all, hot int
	testkit.Eventually(t, func() bool {
		f.pool.Reset() // a session reports its counts when it ends
		require.NoError(t, f.other.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'charges'`).Scan(&all, &hot))
		return all >= updates
	}, "the statistics tell of all updates")
	require.GreaterOrEqual(t, float64(hot)/float64(all), 0.9, "%d of %d", hot, all)
	t.Logf("%d of %d updates were HOT", hot, all)
}

// TestSettleFindsRowsByIndex: a plan that was made while the table was empty must not be kept for the full one.
func TestSettleFindsRowsByIndex(t *testing.T) {
	f := newFixture(t)
	for range 10 { // enough for a cached plan, if there were one
		c := f.mustClaim(t, f.order())
		f.mustSettle(t, c, succeeded(c, "ch_1"))
	}
	_, err := f.other.Exec(t.Context(), `
		INSERT INTO charges (order_id, event_id, customer_id, amount_minor, currency, fingerprint, idempotency_key, provider_account,
		       state, origin_topic_id, origin_partition, origin_offset)
		SELECT id AS order_id, id AS event_id, id AS customer_id, 1, 'EUR', decode(repeat('00', 32), 'hex'), id, 'default', 'retry_wait', id, 0, 0
		FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 30000)) random`)
	require.NoError(t, err)
	before := f.scanned(t, 10)
	for range 20 {
		c := f.mustClaim(t, f.order())
		f.mustSettle(t, c, succeeded(c, "ch_1"))
	}
	require.Less(t, f.scanned(t, 30)-before, 1000, "rows read by scanning the whole table")
}

// scanned counts the rows of charges that were read by scans of the whole table, once the statistics know of the updates.
func (f *fixture) scanned(t *testing.T, updates int) (n int) {
	t.Helper()
	testkit.Eventually(t, func() bool {
		f.pool.Reset() // a session reports its counts when it ends
		var seen int
		require.NoError(t, f.other.QueryRow(t.Context(), `SELECT seq_tup_read, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'charges'`).Scan(&n, &seen))
		return seen >= updates
	}, "the statistics tell of %d updates", updates)
	return n
}
