package pgstore

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

func (f *fixture) listed(t testing.TB) []uuid.UUID {
	t.Helper()
	ids, err := f.ListUnknown(t.Context(), uuid.Nil, 1000)
	require.NoError(t, err)
	return ids
}

// TestSettleListsWhatIsNotKnown: exactly those orders, in the statement that settles them.
func TestSettleListsWhatIsNotKnown(t *testing.T) {
	f := newFixture(t)
	for state, listed := range map[billing.State]bool{
		billing.Unknown: true, billing.Review: true, billing.RetryWait: false, billing.Succeeded: false, billing.Declined: false, billing.Rejected: false,
	} {
		c := f.mustClaim(t, f.order())
		st := settlement(state, failure.ProviderTimeout)
		if state == billing.Succeeded {
			st = succeeded(c, "ch_1")
		}
		f.mustSettle(t, c, st)
		require.Equal(t, listed, f.count(t, `SELECT count(*) FROM unknown_outcomes WHERE order_id = $1`, c.Order.ID) == 1, state)
	}
}

func TestUnknownStats(t *testing.T) {
	f := newFixture(t)
	st, err := f.UnknownStats(t.Context())
	require.NoError(t, err)
	require.Zero(t, st)
	old, young := f.order(), f.order()
	for _, o := range []billing.Order{old, young} {
		for range 2 { // listed once, since the first time
			f.mustSettle(t, f.mustClaim(t, o), unknown(failure.ProviderTimeout))
		}
	}
	_, err = f.pool.Exec(t.Context(), `UPDATE unknown_outcomes SET since = now() - interval '1 hour' WHERE order_id = $1`, old.ID)
	require.NoError(t, err)
	st, err = f.UnknownStats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, st.Orders)
	require.InDelta(t, time.Hour, st.Oldest, float64(time.Minute))
	c := f.mustClaim(t, old)
	f.mustSettle(t, c, succeeded(c, "ch_1"))
	st, err = f.UnknownStats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, st.Orders, "what is known by now does not count, though it is still listed")
	require.Less(t, st.Oldest, time.Minute)
}

func TestForgetKnown(t *testing.T) {
	f := newFixture(t)
	keep, inReview, flying, refused := f.order(), f.order(), f.order(), f.order()
	for _, o := range []billing.Order{keep, flying, refused} {
		f.mustSettle(t, f.mustClaim(t, o), unknown(failure.ProviderTimeout))
	}
	f.mustSettle(t, f.mustClaim(t, inReview), settlement(billing.Review, failure.KeyReused))
	f.mustClaim(t, flying)
	c := f.mustClaim(t, refused)
	f.mustSettle(t, c, refusal(c, billing.Declined, failure.Declined))
	n, err := f.ForgetKnown(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.ElementsMatch(t, []uuid.UUID{keep.ID, inReview.ID, flying.ID}, f.listed(t))
}

// TestNoneIsForgottenInARace: orders go back and forth between known and unknown while the list is cleaned. In the end each
// unknown one must be listed.
func TestNoneIsForgottenInARace(t *testing.T) {
	f := newFixture(t)
	stop, cleaned := make(chan struct{}), make(chan int64, 1)
	go func() {
		var total int64
		for {
			n, err := f.ForgetKnown(t.Context())
			if total += n; err != nil {
				total = -1
			}
			select {
			case <-stop:
				cleaned <- total
				return
			default:
			}
		}
	}()
	var wg sync.WaitGroup
	for range 20 {
		o := f.order()
		wg.Go(func() {
			for range 15 {
				f.mustSettle(t, f.mustClaim(t, o), unknown(failure.ProviderTimeout))
				f.mustSettle(t, f.mustClaim(t, o), settlement(billing.RetryWait, failure.ProviderRateLimited))
			}
			f.mustSettle(t, f.mustClaim(t, o), unknown(failure.ProviderTimeout))
		})
	}
	wg.Wait()
	close(stop)
	require.Positive(t, <-cleaned)
	require.Len(t, f.listed(t), 20)
}

// TestResolveComparesTheRow: whatever has changed since it was read, nothing is written.
func TestResolveComparesTheRow(t *testing.T) {
	found := Finding{State: billing.Succeeded, ChargeID: "ch_1", Started: time.Now()}
	for name, meanwhile := range map[string]func(t *testing.T, f *fixture, o billing.Order){
		"claimed": func(t *testing.T, f *fixture, o billing.Order) { f.mustClaim(t, o) },
		"claimed and unknown again": func(t *testing.T, f *fixture, o billing.Order) {
			f.mustSettle(t, f.mustClaim(t, o), unknown(failure.ProviderTimeout))
		},
		"charged": func(t *testing.T, f *fixture, o billing.Order) {
			c := f.mustClaim(t, o)
			f.mustSettle(t, c, succeeded(c, "ch_2"))
		},
		"vanished": func(t *testing.T, f *fixture, _ billing.Order) {
			_, err := f.pool.Exec(t.Context(), `DELETE FROM charges`)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			o := f.order()
			f.mustSettle(t, f.mustClaim(t, o), unknown(failure.ProviderTimeout))
			row := f.rowOf(t, o)
			require.True(t, row.Undecided())
			meanwhile(t, f, o)
			done, err := f.Resolve(t.Context(), row, found)
			require.NoError(t, err)
			require.False(t, done)
			require.Zero(t, f.count(t, `SELECT count(*) FROM charge_attempts WHERE kind = 'lookup'`))
		})
	}
}

// TestResolveTellsTheNextVersion: an order may have told a result before, in the same generation.
func TestResolveTellsTheNextVersion(t *testing.T) {
	woken := make(chan struct{}, 9)
	f := newFixture(t, func(c *Config) { c.EventWritten = func() { woken <- struct{}{} } })
	o := f.order()
	f.mustSettle(t, f.mustClaim(t, o), unknown(failure.ProviderTimeout))
	_, err := f.pool.Exec(t.Context(), `UPDATE charges SET event_version = 3`)
	require.NoError(t, err)
	done, err := f.Resolve(t.Context(), f.rowOf(t, o), Finding{State: billing.Succeeded, ChargeID: "ch_1", Started: time.Now()})
	require.NoError(t, err)
	require.True(t, done)
	require.Len(t, woken, 1)
	e := f.events(t, o)[0]
	require.Equal(t, []any{4, "ch_1", "149.90", "EUR", billing.EventSucceeded}, []any{e.Version, e.ProviderChargeID, e.Amount, e.Currency, e.Type})
	require.Equal(t, 4, f.rowOf(t, o).Version)
}

func (f *fixture) rowOf(t testing.TB, o billing.Order) Row {
	t.Helper()
	rows, err := f.Rows(t.Context(), []uuid.UUID{o.ID, uuid.New()})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	return rows[o.ID]
}

func TestSuccessesByTime(t *testing.T) {
	f := newFixture(t)
	c := f.mustClaim(t, f.order())
	begun := time.Now().Truncate(time.Microsecond)
	st := succeeded(c, "ch_1")
	f.mustSettle(t, c, st)
	late := *c
	late.ID = uuid.New()
	f.mustSettle(t, &late, succeeded(&late, "ch_1")) // told twice, is one order
	f.mustSettle(t, f.mustClaim(t, f.order()), unknown(failure.ProviderTimeout))
	found, err := f.Successes(t.Context(), begun, time.Now().Add(time.Second))
	require.NoError(t, err)
	require.Equal(t, []Success{{OrderID: c.Order.ID, ChargeID: "ch_1", Amount: c.Order.Amount, Claims: 1}}, found)
	found, err = f.Successes(t.Context(), begun.Add(-time.Hour), begun)
	require.NoError(t, err)
	require.Empty(t, found)
}
