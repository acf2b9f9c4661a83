package reconcile

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/httpprovider"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/postgres"
	"example.com/billing/internal/testkit"
)

// settled is short here: charges are ripe for a comparison at once.
const settled = time.Millisecond

// topic is the id of the main topic.
var topic = uuid.MustParse("11111111-2222-3333-4444-555555555555")

// world is a running store and the simulator behind real HTTP.
type world struct {
	t        *testing.T
	db       *testkit.Database
	store    *pgstore.Store
	sim      *providersim.Server
	provider *httpprovider.Client
	begun    time.Time
	offset   atomic.Int64
}

func newWorld(t *testing.T, change ...func(*providersim.Config)) *world {
	t.Helper()
	cfg := providersim.Config{}
	for _, c := range change {
		c(&cfg)
	}
	w := &world{t: t, db: testkit.Postgres(t), begun: time.Now().Add(-time.Second)}
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: w.db.URL, MaxConns: 8}) // as the service has it, limits and all
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	w.store, err = pgstore.New(pgstore.Config{
		Pool: pool, Environment: "test", Account: "default", Lease: 15 * time.Second, ProviderTimeout: 10 * time.Second,
		Clock: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.store.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	w.sim, err = providersim.New(cfg)
	require.NoError(t, err)
	w.provider = client(t, w.sim)
	return w
}

func client(t *testing.T, sim *providersim.Server) *httpprovider.Client {
	t.Helper()
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close)
	client, err := httpprovider.New(httpprovider.Config{URL: server.URL, Timeout: 5 * time.Second, MaxConns: 8})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func (w *world) reconciler(change ...func(*Config)) *Reconciler {
	return w.reconcilerOf(w.provider, change...)
}

func (w *world) reconcilerOf(p Provider, change ...func(*Config)) *Reconciler {
	w.t.Helper()
	cfg := Config{Settled: settled, Lookups: 4, Sample: 100, Backoff: time.Millisecond, Clock: time.Now, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	r, err := New(cfg, w.store, w.db.Pool, p)
	require.NoError(w.t, err)
	return r
}

// unknown works through unknown outcomes. No request to the provider may be more than a look-up.
func (w *world) unknown(r *Reconciler) UnknownReport {
	w.t.Helper()
	sent := w.sim.Summary().Requests
	report, err := r.Run(w.t.Context(), Request{Unknown: true})
	require.NoError(w.t, err)
	require.Nil(w.t, report.Range)
	require.Equal(w.t, sent, w.sim.Summary().Requests, "a charge was sent")
	return *report.Unknown
}

// compared compares all that happened in this test.
func (w *world) compared(r *Reconciler) RangeReport {
	w.t.Helper()
	sent := w.sim.Summary().Requests
	report, err := r.Run(w.t.Context(), w.all())
	require.NoError(w.t, err)
	require.Equal(w.t, sent, w.sim.Summary().Requests, "a charge was sent")
	require.Equal(w.t, report.Range.To, report.Range.Until)
	return *report.Range
}

// all is the range from the start of the test until what was made last has settled.
func (w *world) all() Request {
	w.t.Helper()
	end := time.Now().Add(2 * time.Millisecond).Truncate(time.Millisecond) // the millisecond of the last charge is part of it
	testkit.Eventually(w.t, func() bool { return time.Now().After(end.Add(settled + time.Millisecond)) }, "the last charge has settled")
	return Request{Range: true, From: w.begun, To: end}
}

func (w *world) order() billing.Order {
	return billing.Order{
		ID: uuid.New(), EventID: uuid.New(), CustomerID: uuid.New(),
		Amount: billing.Money{Minor: 14990, Currency: "EUR"}, AmountText: "149.90",
		Origin: billing.Origin{TopicID: topic, Offset: w.offset.Add(1) - 1},
	}
}

func (w *world) claim(o billing.Order) *billing.Claim {
	w.t.Helper()
	c, standing, err := w.store.Claim(w.t.Context(), o)
	require.NoError(w.t, err)
	require.Nil(w.t, standing)
	return c
}

// move lets the provider charge the order, under a key of its own: every call moves money.
func (w *world) move(o billing.Order) billing.ProviderCharge {
	w.t.Helper()
	charge, _, err := w.provider.Charge(w.t.Context(), billing.ChargeRequest{
		Key: uuid.New(), Reference: o.ID, CustomerID: o.CustomerID, Amount: o.Amount, SendBy: time.Now().Add(time.Minute),
	})
	require.NoError(w.t, err)
	return charge
}

func (w *world) settle(c *billing.Claim, st billing.Settlement) {
	w.t.Helper()
	st.Attempt.Kind, st.Attempt.StartedAt, st.Attempt.FinishedAt, st.Attempt.Reason, st.Sent = "charge", c.Now, time.Now(), st.Reason, true
	_, err := w.store.Settle(w.t.Context(), c, st)
	require.NoError(w.t, err)
}

// charged is an order that is charged, here and there.
func (w *world) charged() (billing.Order, billing.ProviderCharge) {
	w.t.Helper()
	o := w.order()
	c := w.claim(o)
	charge := w.move(o)
	w.settle(c, billing.Settlement{State: billing.Succeeded, ProviderChargeID: charge.ID})
	return o, charge
}

// undecided is an order whose request was sent long ago, and whose answer never came.
func (w *world) undecided() billing.Order {
	w.t.Helper()
	o := w.order()
	w.settle(w.claim(o), billing.Settlement{State: billing.Unknown, Unknown: true, Reason: failure.ProviderTimeout})
	w.exec(`UPDATE charges SET first_sent_at = now() - interval '1 hour', last_sent_at = now() - interval '1 hour' WHERE order_id = $1`, o.ID)
	return o
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.db.Pool.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.db.Pool.QueryRow(w.t.Context(), sql, args...).Scan(&n))
	return n
}

func (w *world) row(o billing.Order) *pgstore.History {
	w.t.Helper()
	h, err := w.store.Order(w.t.Context(), o.ID)
	require.NoError(w.t, err)
	require.NotNil(w.t, h)
	return h
}

func (w *world) listed() int { return w.count(`SELECT count(*) FROM unknown_outcomes`) }

// provider is one whose answers a test changes.
type provider struct {
	Provider
	find func(ctx context.Context, reference uuid.UUID) ([]billing.ProviderCharge, bool, error)
	list func(ctx context.Context, from, to time.Time, cursor string, limit int) ([]billing.ListedCharge, string, error)
}

func (p provider) Find(ctx context.Context, reference uuid.UUID) ([]billing.ProviderCharge, bool, error) {
	if p.find == nil {
		return p.Provider.Find(ctx, reference)
	}
	return p.find(ctx, reference)
}

func (p provider) List(ctx context.Context, from, to time.Time, cursor string, limit int) ([]billing.ListedCharge, string, error) {
	if p.list == nil {
		return p.Provider.List(ctx, from, to, cursor, limit)
	}
	return p.list(ctx, from, to, cursor, limit)
}

// after waits for an instant, a millisecond or two away.
func after(t *testing.T, at time.Time) {
	t.Helper()
	testkit.Eventually(t, func() bool { return time.Now().After(at) }, "the clock goes on")
}
