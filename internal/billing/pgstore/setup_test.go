package pgstore

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/postgres"
	"example.com/billing/internal/testkit"
)

const (
	testLease   = 15 * time.Second
	testTimeout = 10 * time.Second
)

// topic is the id of the main topic in these tests.
var topic = uuid.MustParse("11111111-2222-3333-4444-555555555555")

// fixture is a running store on a database of its own.
type fixture struct {
	*Store
	pool   *pgxpool.Pool // the store's own
	other  *pgxpool.Pool // of a bystander, without limits
	offset atomic.Int64  // origins are all different
}

func newFixture(t testing.TB, change ...func(*Config)) *fixture {
	t.Helper()
	db := testkit.Postgres(t)
	pool := openPool(t, db.URL)
	return &fixture{Store: startStore(t, pool, change...), pool: pool, other: db.Pool}
}

// openPool is a pool as the service has it, limits and all.
func openPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 8})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func startStore(t testing.TB, pool *pgxpool.Pool, change ...func(*Config)) *Store {
	t.Helper()
	cfg := Config{
		Pool: pool, Environment: "test", Account: "default", Lease: testLease, ProviderTimeout: testTimeout,
		Clock: time.Now, Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return s
}

// order is a new order from a new record.
func (f *fixture) order() billing.Order {
	return billing.Order{
		ID: uuid.New(), EventID: uuid.New(), CustomerID: uuid.New(),
		Amount: billing.Money{Minor: 14990, Currency: "EUR"}, AmountText: "149.90",
		Origin: billing.Origin{TopicID: topic, Partition: 0, Offset: f.offset.Add(1) - 1},
	}
}

func (f *fixture) mustClaim(t testing.TB, o billing.Order) *billing.Claim {
	t.Helper()
	c, standing, err := f.Claim(t.Context(), o)
	require.NoError(t, err)
	require.Nil(t, standing)
	require.NotNil(t, c)
	return c
}

func (f *fixture) mustStand(t testing.TB, o billing.Order) *billing.Standing {
	t.Helper()
	c, standing, err := f.Claim(t.Context(), o)
	require.NoError(t, err)
	require.Nil(t, c)
	require.NotNil(t, standing)
	return standing
}

func (f *fixture) mustSettle(t testing.TB, c *billing.Claim, st billing.Settlement) (held bool) {
	t.Helper()
	held, err := f.Settle(t.Context(), c, st)
	require.NoError(t, err)
	return held
}

// expire ends the order's lease now.
func (f *fixture) expire(t testing.TB, o billing.Order) {
	t.Helper()
	tag, err := f.pool.Exec(t.Context(), `UPDATE charges SET lease_until = now() - interval '1 second' WHERE order_id = $1 AND state = 'in_flight'`, o.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
}

func (f *fixture) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, f.other.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func (f *fixture) history(t testing.TB, o billing.Order) *History {
	t.Helper()
	h, err := f.Order(t.Context(), o.ID)
	require.NoError(t, err)
	require.NotNil(t, h)
	return h
}

// succeeded, refusedBy and failed are settlements as billing.Service makes them.
func succeeded(c *billing.Claim, chargeID string) billing.Settlement {
	st := settlement(billing.Succeeded, "")
	st.ProviderChargeID = chargeID
	st.Event = event(c, billing.EventSucceeded)
	st.Event.ProviderChargeID = chargeID
	return st
}

func refusal(c *billing.Claim, state billing.State, reason failure.Reason) billing.Settlement {
	st := settlement(state, reason)
	st.Event = event(c, billing.EventFailed)
	st.Event.Kind, st.Event.Reason = string(state), string(reason)
	return st
}

func unknown(reason failure.Reason) billing.Settlement {
	st := settlement(billing.Unknown, reason)
	st.Unknown = true
	return st
}

func notSent(c *billing.Claim) billing.Settlement {
	st := settlement(billing.RetryWait, failure.ProviderUnreachable)
	st.Sent = false
	if st.Unknown = c.Unknown; st.Unknown {
		st.State = billing.Unknown
	}
	return st
}

func settlement(state billing.State, reason failure.Reason) billing.Settlement {
	now := time.Now()
	return billing.Settlement{
		State: state, Reason: reason, Sent: true,
		Attempt: billing.Attempt{Kind: "charge", StartedAt: now, FinishedAt: now, Reason: reason, HTTPStatus: 201, ProviderRequestID: "req_1"},
	}
}

func event(c *billing.Claim, kind string) *billing.Event {
	return billing.Event{
		Type: kind, OccurredAt: time.Now().UTC(), OrderID: c.Order.ID, Generation: c.Generation,
		Amount: c.Order.Amount.Decimal(), Currency: c.Order.Amount.Currency, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}.WithVersion(c.Version + 1)
}

func requireReason(t testing.TB, want failure.Reason, err error) {
	t.Helper()
	var f *failure.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, want, f.Reason, f.Detail)
	require.False(t, f.Final, "only what our own guards say is final")
}
