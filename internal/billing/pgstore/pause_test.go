package pgstore

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/testkit"
)

// pause turns the operator's switch, as package fleet does.
func (f *fixture) pause(t testing.TB, on bool) {
	t.Helper()
	sql := `DELETE FROM operator_pause`
	if on {
		sql = `INSERT INTO operator_pause (actor, reason) VALUES ('olga', 'test')`
	}
	_, err := f.other.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func (f *fixture) requirePaused(t testing.TB, o billing.Order) {
	t.Helper()
	c, standing, err := f.Claim(t.Context(), o)
	require.Nil(t, c)
	require.Nil(t, standing)
	requireReason(t, failure.OperatorPause, err)
}

// TestPause: no order is claimed and no row changes, whatever state it is in; what was claimed before settles (H20).
func TestPause(t *testing.T) {
	f := newFixture(t)
	fresh, waiting, unknownOrder, expired, paid, flying := f.order(), f.order(), f.order(), f.order(), f.order(), f.order()
	c := f.mustClaim(t, waiting)
	f.mustSettle(t, c, notSent(c))
	c = f.mustClaim(t, unknownOrder)
	f.mustSettle(t, c, unknown(failure.ProviderTimeout))
	f.mustClaim(t, expired)
	f.expire(t, expired)
	c = f.mustClaim(t, paid)
	f.mustSettle(t, c, succeeded(c, "ch_1"))
	underWay := f.mustClaim(t, flying)

	f.pause(t, true)
	all := []billing.Order{fresh, waiting, unknownOrder, expired, paid, flying}
	for _, o := range all {
		f.requirePaused(t, o)
	}
	batch := make([]*claimJob, len(all))
	for i, o := range all {
		batch[i] = &claimJob{in: claimRequest{id: uuid.New(), order: o, fingerprint: o.Fingerprint()}}
	}
	f.claimBatch(batch, false)
	for _, j := range batch {
		requireReason(t, failure.OperatorPause, j.err)
	}
	require.Zero(t, f.count(t, `SELECT count(*) FROM charges WHERE order_id = $1`, fresh.ID))
	require.Equal(t, 5, f.count(t, `SELECT sum(attempts) FROM charges`), "one attempt each: none was counted")
	require.True(t, f.mustSettle(t, underWay, succeeded(underWay, "ch_2")))

	f.pause(t, false)
	for _, o := range []billing.Order{fresh, waiting, unknownOrder, expired} {
		f.mustClaim(t, o)
	}
	require.Equal(t, billing.Succeeded, f.mustStand(t, paid).State)
	require.Equal(t, billing.Succeeded, f.mustStand(t, flying).State)
}

// TestPauseRacesClaims: many claim while the switch is turned on and off. After each turn the next claim obeys, from
// whichever instance; a refused claim has left no row.
func TestPauseRacesClaims(t *testing.T) {
	f := newFixture(t)
	second := &fixture{Store: startStore(t, openPool(t, f.pool.Config().ConnString())), pool: f.pool, other: f.other}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	claimed, refused := 0, 0
	for i := range 8 {
		from := []*fixture{f, second}[i%2]
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, _, err := from.Claim(t.Context(), f.order())
				mu.Lock()
				if c != nil {
					claimed++
				} else {
					requireReason(t, failure.OperatorPause, err)
					refused++
				}
				mu.Unlock()
			}
		})
	}
	seen := func(n *int) bool { mu.Lock(); defer mu.Unlock(); return *n > 0 }
	testkit.Eventually(t, func() bool { return seen(&claimed) }, "claims get through")
	for range 10 {
		f.pause(t, true)
		f.requirePaused(t, f.order())
		second.requirePaused(t, f.order())
		f.pause(t, false)
		f.mustClaim(t, f.order())
		second.mustClaim(t, f.order())
	}
	testkit.Eventually(t, func() bool { return seen(&refused) }, "claims are refused")
	close(stop)
	wg.Wait()
	require.Equal(t, claimed+20, f.count(t, `SELECT count(*) FROM charges`))
}
