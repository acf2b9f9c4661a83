package pgstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
)

// The database refuses every success for a while (SQLSTATE 23514). The orders are charged, their rows do not say so, and the
// offsets have moved. Nobody shall produce them again: they are found out by a look-up, and the books are even then.
func TestRefusedSuccessesAreNotWithoutAFate(t *testing.T) {
	f := newFixture(t)
	exec := func(sql string) {
		_, err := f.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(`ALTER TABLE outbox ADD CONSTRAINT nothing_goes CHECK (false) NOT VALID`)
	orders := []billing.Order{f.order(), f.order(), f.order()}
	for _, o := range orders {
		c := f.mustClaim(t, o)
		require.False(t, f.mustSettle(t, c, succeeded(c, "ch_"+o.ID.String())))
	}
	exec(`ALTER TABLE outbox DROP CONSTRAINT nothing_goes`)
	require.Equal(t, 3, f.count(t, `SELECT count(*) FROM charge_anomalies WHERE kind = 'unwritable_outcome'`))
	f.mustAdvance(t, 0, 4, 4) // nothing at all is known of the last one
	var zero int32
	lost := Flaw{Kind: NoFate, Partition: &zero, Records: 1, Offsets: []Offsets{{3, 3}}}
	unsettled := Flaw{Kind: Unsettled, Partition: &zero, Records: 3, Offsets: []Offsets{{0, 2}}}
	require.Equal(t, []Flaw{unsettled, lost}, f.check(t).Flaws)

	for _, o := range orders {
		f.expire(t, o)
	}
	pages, err := f.Pages(t.Context())
	require.NoError(t, err)
	_, err = f.Sweep(t.Context(), 0, pages, 0)
	require.NoError(t, err)
	require.Equal(t, []Flaw{unsettled, lost}, f.check(t).Flaws, "on the list of unknown outcomes by now")
	for i, o := range orders {
		found := Finding{State: billing.Succeeded, ChargeID: "ch_" + o.ID.String(), Started: time.Now()}
		if i == 2 {
			found = Finding{State: billing.RetryWait, Started: time.Now()} // proven absent: nobody works on it, and no record stands for it
		}
		done, err := f.Resolve(t.Context(), f.rowOf(t, o), found)
		require.NoError(t, err)
		require.True(t, done)
	}
	lost.Records, lost.Offsets = 2, []Offsets{{2, 3}}
	require.Equal(t, []Flaw{lost}, f.check(t).Flaws)
}
