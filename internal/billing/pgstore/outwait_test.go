package pgstore

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
)

// TestALeaseEndsByTheWaitersClock: the database's clock was set back by an hour after the claim, and its owner is dead (H9).
func TestALeaseEndsByTheWaitersClock(t *testing.T) {
	var ahead atomic.Int64 // of the store's clock
	f := newFixture(t, func(cfg *Config) {
		cfg.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	o := f.order()
	dead := f.mustClaim(t, o)
	setBack := func() {
		_, err := f.pool.Exec(t.Context(), `UPDATE charges SET lease_until = lease_until + interval '1 hour' WHERE order_id = $1`, o.ID)
		require.NoError(t, err)
	}
	setBack()
	require.Equal(t, billing.InFlight, f.mustStand(t, o).State, "seen for the first time")
	ahead.Store(int64(testLease))
	require.Equal(t, billing.InFlight, f.mustStand(t, o).State, "not for longer than a lease")
	ahead.Add(int64(sendMargin + time.Second))
	taken := f.mustClaim(t, o)
	require.True(t, taken.Unknown, "it may have sent")
	require.Equal(t, dead.Key, taken.Key)

	setBack()
	require.Equal(t, billing.InFlight, f.mustStand(t, o).State, "another claim, waited for anew")
	require.False(t, f.mustSettle(t, dead, notSent(dead)), "the dead one lost it")
	require.True(t, f.mustSettle(t, taken, succeeded(taken, "ch_1")))
}

// A claim that was settled after it was seen is not ended.
func TestEndingALeaseComparesTheClaim(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	first := f.mustClaim(t, o)
	require.True(t, f.mustSettle(t, first, notSent(first)))
	second := f.mustClaim(t, o)
	require.NoError(t, f.endLeases(map[uuid.UUID]uuid.UUID{o.ID: first.ID}))
	require.Equal(t, billing.InFlight, f.mustStand(t, o).State)
	require.True(t, f.mustSettle(t, second, succeeded(second, "ch_1")))
}

func TestOutwaitIsBounded(t *testing.T) {
	w := outwait{first: map[uuid.UUID]time.Time{}}
	now := time.Now()
	old, young := uuid.New(), uuid.New()
	require.False(t, w.seen(old, time.Second, now))
	for range maxOutwaited + 10 {
		w.seen(uuid.New(), time.Second, now.Add(time.Second))
	}
	require.Len(t, w.first, maxOutwaited)
	require.False(t, w.seen(young, time.Second, now.Add(3*time.Second)))
	require.NotContains(t, w.first, old, "nobody waits for it any more")
	require.Contains(t, w.first, young)
}
