package pgstore

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/postgres"
	"example.com/billing/internal/testkit"
)

// neighbours is how many orders are charged beside one that is locked, and neighbourly how long that may take: the first
// batch waits for a lock once, which is a second and a half on a machine that has nothing else to do.
const (
	neighbours  = 50
	neighbourly = 10 * time.Second
)

// TestLockedRowDelaysNobodyElse: somebody's open transaction keeps one row locked. Its neighbours in the batch are claimed
// and settled all the same, and those of later batches do not even wait once (hazard H32).
func TestLockedRowDelaysNobodyElse(t *testing.T) {
	t.Parallel() // it waits
	f := newFixture(t)
	locked := f.mustClaim(t, f.order())
	claims := []*billing.Claim{locked}
	for range neighbours {
		claims = append(claims, f.mustClaim(t, f.order()))
	}
	unlock := f.lock(t, `SELECT FROM charges WHERE order_id = $1 FOR UPDATE`, locked.Order.ID)

	began := time.Now()
	failed := f.settleAll(t, claims)
	require.Less(t, time.Since(began), neighbourly)
	t.Logf("the neighbours took %s", time.Since(began))
	requireReason(t, failure.DatabaseBusy, failed[locked.Order.ID.String()])
	require.Len(t, failed, 1, "the neighbours do not pay")

	var again sync.WaitGroup
	again.Go(func() { // as the service does until it is written
		for failed := errors.New("not yet"); failed != nil; {
			_, failed = f.Settle(t.Context(), locked, succeeded(locked, "ch_locked"))
		}
	})
	for range 5 {
		began = time.Now()
		for range neighbours / 5 {
			c := f.mustClaim(t, f.order())
			require.True(t, f.mustSettle(t, c, succeeded(c, "ch_"+c.ID.String())))
		}
		require.Less(t, time.Since(began), neighbourly/2, "later batches do not wait for the row")
	}
	unlock()
	again.Wait()
	require.Equal(t, billing.Succeeded, f.history(t, locked.Order).State, "once the lock is gone")
}

// TestLockedRowOfAClaim: an order that is locked waits uncounted; a table that is locked is everyone's trouble.
func TestLockedRowOfAClaim(t *testing.T) {
	t.Parallel() // it waits
	f := newFixture(t)
	waiting := f.mustClaim(t, f.order())
	f.mustSettle(t, waiting, notSent(waiting))
	unseen := f.order()
	unlock := f.lock(t, `SELECT FROM charges WHERE order_id = $1 FOR UPDATE`, waiting.Order.ID)
	forget := f.lock(t, `INSERT INTO charges (order_id, event_id, customer_id, amount_minor, currency, fingerprint, idempotency_key, provider_account,
		state, origin_topic_id, origin_partition, origin_offset)
		VALUES ($1, $1, $1, 1, 'EUR', decode(repeat('00', 32), 'hex'), $1, 'default', 'retry_wait', $1, 0, 0)`, unseen.ID)

	began := time.Now()
	failed := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	orders := []billing.Order{waiting.Order, unseen}
	for range neighbours {
		orders = append(orders, f.order())
	}
	for _, o := range orders {
		all.Go(func() {
			if _, _, err := f.Claim(t.Context(), o); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[o.ID.String()] = err
			}
		})
	}
	all.Wait()
	require.Less(t, time.Since(began), neighbourly)
	require.Len(t, failed, 2, "the neighbours do not pay")
	requireReason(t, failure.OrderBusy, failed[waiting.Order.ID.String()])
	requireReason(t, failure.OrderBusy, failed[unseen.ID.String()]) // a row that nobody can see yet

	unlock()
	forget()
	f.mustClaim(t, waiting.Order)
	f.mustClaim(t, unseen)

	release := f.lock(t, `LOCK TABLE charges IN ACCESS EXCLUSIVE MODE`)
	_, _, err := f.Claim(t.Context(), f.order())
	requireReason(t, failure.DatabaseBusy, err)
	release()
}

// TestLockedFateDelaysNobodyElse: the same for the books.
func TestLockedFateDelaysNobodyElse(t *testing.T) {
	t.Parallel() // it waits
	f := newFixture(t)
	fate := func(offset int64) Fate {
		return Fate{Origin: billing.Origin{TopicID: topic, Offset: offset}, Kind: "waiting", Reason: failure.Provider5xx}
	}
	require.NoError(t, f.RecordFate(t.Context(), fate(0)))
	f.lock(t, `SELECT FROM record_fates WHERE "offset" = $1 FOR UPDATE`, 0)
	began := time.Now()
	var failed sync.Map
	var all sync.WaitGroup
	for offset := range int64(neighbours) {
		all.Go(func() {
			if err := f.RecordFate(t.Context(), fate(offset)); err != nil {
				failed.Store(offset, err)
			}
		})
	}
	all.Wait()
	require.Less(t, time.Since(began), neighbourly)
	failed.Range(func(offset, err any) bool {
		require.Zero(t, offset, "%v", err)
		return true
	})
	require.Equal(t, neighbours, f.count(t, `SELECT count(*) FROM record_fates`))
}

// lock keeps what the statement locks until it is told to let go.
func (f *fixture) lock(t *testing.T, sql string, args ...any) (unlock func()) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), f.other.Config().ConnConfig)
	require.NoError(t, err)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	unlock = sync.OnceFunc(func() { conn.Close(t.Context()) }) // which rolls back
	t.Cleanup(unlock)
	return unlock
}

// settleAll settles the claims at once, and returns those that failed by order.
func (f *fixture) settleAll(t *testing.T, claims []*billing.Claim) map[string]error {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	failed := map[string]error{}
	for _, c := range claims {
		all.Go(func() {
			if _, err := f.Settle(t.Context(), c, succeeded(c, "ch_"+c.ID.String())); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[c.Order.ID.String()] = err
			}
		})
	}
	all.Wait()
	return failed
}

// TestLeastPoolFeedsTheRelay: with the least pool that is allowed, while locks hold up whatever can be held up and the books
// are read, there is a connection for the relay, the leases and single questions.
func TestLeastPoolFeedsTheRelay(t *testing.T) {
	t.Parallel() // it waits
	db := testkit.Postgres(t)
	small := func(conns int) *pgxpool.Pool {
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: db.URL, MaxConns: conns})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	pool := small(MinConns)
	_, err := New(Config{Pool: small(MinConns - 1), Lease: testLease, ProviderTimeout: testTimeout, Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "BILLING_DATABASE_MAX_CONNS")

	f := &fixture{Store: startStore(t, pool), pool: pool, other: db.Pool}
	claim := f.mustClaim(t, f.order())
	reading, err := pool.Acquire(t.Context()) // as the balance does, for as long as it takes
	require.NoError(t, err)
	defer reading.Release()
	f.lock(t, `LOCK TABLE charges, record_fates IN ACCESS EXCLUSIVE MODE`)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = f.Settle(ctx, claim, succeeded(claim, "ch_1")) // it fails, and waits for that as long as it may
			}
		})
		all.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = f.Claim(ctx, f.order())
			}
		})
		all.Go(func() {
			for ctx.Err() == nil {
				_ = f.RecordFate(ctx, Fate{Origin: f.order().Origin, Kind: "waiting"})
			}
		})
	}
	for range 20 {
		began := time.Now()
		held, err := f.Hold(t.Context(), "outbox", uuid.New(), time.Microsecond)
		require.NoError(t, err)
		require.True(t, held)
		require.Less(t, time.Since(began), time.Second)
	}
	stop()
	all.Wait()
}
