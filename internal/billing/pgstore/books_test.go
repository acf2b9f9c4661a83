package pgstore

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

func (f *fixture) mustAdvance(t testing.TB, from, next, records int64) {
	t.Helper()
	require.NoError(t, f.AdvanceIntake(t.Context(), []Intake{{TopicID: topic, Partition: 0, From: from, Next: next, Records: records}}))
}

func (f *fixture) mustRecord(t testing.TB, o billing.Order, kind string) {
	t.Helper()
	require.NoError(t, f.RecordFate(t.Context(), Fate{Origin: o.Origin, OrderID: o.ID, Kind: kind, Reason: failure.ProviderTimeout}))
}

func (f *fixture) balance(t testing.TB) Balance {
	t.Helper()
	b, err := f.Balance(t.Context(), topic)
	require.NoError(t, err)
	return b
}

// TestBalance takes records through all fates, with the repetitions that crashes make of them.
func TestBalance(t *testing.T) {
	f := newFixture(t)
	require.Zero(t, f.balance(t))

	charged := f.order() // offset 0
	c := f.mustClaim(t, charged)
	f.mustSettle(t, c, succeeded(c, "ch_1"))
	twin := charged // offset 1: the same order in another record
	twin.Origin.Offset = f.offset.Add(1) - 1
	f.mustRecord(t, twin, "duplicate")
	waiting, dead, dropped, resolved, undecodable := f.order(), f.order(), f.order(), f.order(), f.order() // 2 to 6
	w := f.mustClaim(t, waiting)
	f.mustSettle(t, w, unknown(failure.ProviderTimeout))
	f.mustRecord(t, waiting, "waiting")
	f.mustRecord(t, dead, "dead")
	f.mustRecord(t, dropped, "dead")
	f.mustRecord(t, dropped, "dropped")
	f.mustRecord(t, resolved, "resolved")
	undecodable.ID = uuid.Nil
	f.mustRecord(t, undecodable, "dead")
	held := f.order() // 7: not finished, so not counted
	f.mustRecord(t, held, "waiting")
	flying := f.mustClaim(t, f.order()) // 8: charged, but its offset has not moved
	f.mustSettle(t, flying, succeeded(flying, "ch_2"))
	f.mustAdvance(t, 0, 7, 7)
	want := Balance{Taken: 7, Charged: 1, Duplicate: 1, Waiting: 1, Dead: 2, Dropped: 1, Resolved: 1}
	require.Equal(t, want, f.balance(t))

	// A crash before the commit of the offset: everything comes again, and nothing changes.
	f.mustRecord(t, twin, "duplicate")
	f.mustRecord(t, dead, "dead")
	f.mustAdvance(t, 0, 7, 7)
	require.Equal(t, want, f.balance(t))

	// The waiting one is charged from its tier: its row of fates is stale from now on.
	w = f.mustClaim(t, waiting)
	f.mustSettle(t, w, succeeded(w, "ch_3"))
	want.Waiting, want.Charged = 0, 2
	require.Equal(t, want, f.balance(t))

	f.mustAdvance(t, 5, 9, 4) // overlaps by two
	want.Taken, want.Waiting, want.Charged = 9, 1, 3
	require.Equal(t, want, f.balance(t))

	f.mustAdvance(t, 9, 10, 1) // a record without any fate
	want.Taken, want.Difference = 10, 1
	require.Equal(t, want, f.balance(t))
}

// TestBalanceOfLateSuccesses: the record that the money moved for is charged, the other one is a duplicate.
func TestBalanceOfLateSuccesses(t *testing.T) {
	f := newFixture(t)
	first := f.mustClaim(t, f.order())
	f.expire(t, first.Order)
	twin := first.Order
	twin.Origin.Offset = f.offset.Add(1) - 1
	second := f.mustClaim(t, twin)
	f.mustSettle(t, second, succeeded(second, "ch_1"))
	f.mustSettle(t, first, succeeded(first, "ch_1"))
	f.mustAdvance(t, 0, 2, 2)
	require.Equal(t, Balance{Taken: 2, Charged: 1, Duplicate: 1}, f.balance(t))

	third := f.mustClaim(t, f.order())
	f.expire(t, third.Order)
	twin = third.Order
	twin.Origin.Offset = f.offset.Add(1) - 1
	f.mustClaim(t, twin)
	f.mustSettle(t, third, succeeded(third, "ch_2")) // overrules the claim of the twin
	st := f.mustStand(t, twin)
	require.NotEqual(t, twin.Origin, st.Origin, "so the twin is seen as another record's duplicate")
	f.mustRecord(t, twin, "duplicate")
	f.mustAdvance(t, 2, 4, 2)
	require.Equal(t, Balance{Taken: 4, Charged: 2, Duplicate: 2}, f.balance(t))
}

// TestBalanceGoesByTheRecord: a message can be given up before its order is known, and be charged when it is replayed.
func TestBalanceGoesByTheRecord(t *testing.T) {
	f := newFixture(t)
	o, unread := f.order(), f.order()
	unread.ID = uuid.Nil
	o.Origin = unread.Origin
	f.mustRecord(t, unread, "dead")
	f.mustAdvance(t, 1, 2, 1)
	require.Equal(t, Balance{Taken: 1, Dead: 1}, f.balance(t))
	f.mustRecord(t, o, "waiting")
	f.mustRecord(t, unread, "waiting")
	known, err := f.SentOn(t.Context(), o.Origin, o.ID)
	require.NoError(t, err)
	require.True(t, known, "an order that was known stays known")
	_, err = f.pool.Exec(t.Context(), `UPDATE record_fates SET order_id = NULL`)
	require.NoError(t, err)
	c := f.mustClaim(t, o)
	f.mustSettle(t, c, succeeded(c, "ch_1"))
	require.Equal(t, Balance{Taken: 1, Charged: 1}, f.balance(t))
}

// TestReplaysAreNoOrdersThatArrived: they are received on the main topic, and stand for records that were taken before.
func TestReplaysAreNoOrdersThatArrived(t *testing.T) {
	f := newFixture(t)
	o, replay := f.order(), f.order() // 0 and 1
	f.mustRecord(t, o, "waiting")
	replay.ID = o.ID
	f.mustRecord(t, replay, "replay")
	f.mustAdvance(t, 0, 2, 2)
	require.Equal(t, Balance{Taken: 1, Waiting: 1}, f.balance(t))
	c := f.mustClaim(t, o)
	f.mustSettle(t, c, succeeded(c, "ch_1"))
	require.Equal(t, Balance{Taken: 1, Charged: 1}, f.balance(t))
}

// TestRecordsFromBelowTheFirst: the group's offsets were set to before the first record that was ever taken.
func TestRecordsFromBelowTheFirst(t *testing.T) {
	f := newFixture(t)
	before, o := f.order(), f.order()
	for _, o := range []billing.Order{before, o} {
		c := f.mustClaim(t, o)
		f.mustSettle(t, c, succeeded(c, "ch_"+o.ID.String()))
	}
	f.mustAdvance(t, 1, 2, 1)
	f.mustRecord(t, before, "duplicate")
	f.mustAdvance(t, 0, 1, 1)
	require.Equal(t, Balance{Taken: 1, Charged: 1}, f.balance(t))
}

func TestSentOn(t *testing.T) {
	f := newFixture(t)
	o, other, replay := f.order(), f.order(), f.order()
	f.mustRecord(t, o, "waiting")
	f.mustRecord(t, replay, "replay")
	for _, c := range []struct {
		origin billing.Origin
		order  uuid.UUID
		want   bool
	}{
		{o.Origin, o.ID, true}, {o.Origin, uuid.Nil, true}, {o.Origin, other.ID, false}, {other.Origin, other.ID, false},
		{billing.Origin{TopicID: uuid.New(), Offset: o.Origin.Offset}, o.ID, false}, {replay.Origin, replay.ID, false},
	} {
		known, err := f.SentOn(t.Context(), c.origin, c.order)
		require.NoError(t, err)
		require.Equal(t, c.want, known, "%+v", c)
	}
}

func TestIntake(t *testing.T) {
	f := newFixture(t)
	taken := func() int64 { return f.balance(t).Taken }
	f.mustAdvance(t, 100, 110, 10)
	require.EqualValues(t, 10, taken())
	f.mustAdvance(t, 110, 120, 7) // holes
	require.EqualValues(t, 17, taken())
	f.mustAdvance(t, 100, 120, 17) // again, in one piece
	f.mustAdvance(t, 90, 95, 5)    // long before
	require.EqualValues(t, 17, taken())
	f.mustAdvance(t, 115, 125, 10) // half of it again
	require.EqualValues(t, 22, taken())
	f.mustAdvance(t, 200, 210, 10) // offsets in between were never received
	require.EqualValues(t, 32, taken())

	err := f.AdvanceIntake(t.Context(), []Intake{{TopicID: topic, From: 205, Next: 220, Records: 9}})
	var overlap *OverlapError
	require.ErrorAs(t, err, &overlap)
	require.EqualValues(t, 210, overlap.Counted)
	require.EqualValues(t, 32, taken(), "what cannot be told is not counted")

	f.mustAdvance(t, 230, 230, 0) // markers of transactions, no record
	require.EqualValues(t, 32, taken())
	f.mustAdvance(t, 215, 231, 16) // which says that there is nothing new below
	require.EqualValues(t, 33, taken())
	require.Error(t, f.AdvanceIntake(t.Context(), []Intake{{TopicID: topic, From: 1, Next: 2, Records: 2}}))
	require.Error(t, f.AdvanceIntake(t.Context(), []Intake{{TopicID: topic, From: 1, Next: 2, Records: 0}}))
	require.NoError(t, f.AdvanceIntake(t.Context(), nil))
}

// TestIntakeOfManyInstances: each has its own partitions, and repeats itself.
func TestIntakeOfManyInstances(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for p := range int32(6) {
		wg.Go(func() {
			for i := range int64(50) {
				r := []Intake{{TopicID: topic, Partition: p, From: i * 10, Next: i*10 + 10, Records: 10}}
				require.NoError(t, f.AdvanceIntake(t.Context(), r))
				require.NoError(t, f.AdvanceIntake(t.Context(), r))
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 3000, f.balance(t).Taken)
}

func TestFatesShareABatch(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for range 100 {
		o := f.order()
		wg.Go(func() {
			f.mustRecord(t, o, "waiting")
			f.mustRecord(t, o, "dead")
		})
	}
	wg.Wait()
	err := f.RecordFate(t.Context(), Fate{Origin: f.order().Origin, Kind: "lost"})
	requireReason(t, failure.DatabaseRefused, err)
	require.Equal(t, 100, f.count(t, `SELECT count(*) FROM record_fates WHERE fate = 'dead'`))
}

func TestPin(t *testing.T) {
	f := newFixture(t)
	pinned := Installation{Environment: "prod", Account: "default", Group: "billing-order-confirmed"}
	require.NoError(t, f.Pin(t.Context(), pinned))
	require.NoError(t, f.Pin(t.Context(), pinned))
	for setting, change := range map[string]func(*Installation){
		"BILLING_ENVIRONMENT":      func(i *Installation) { i.Environment = "x" },
		"BILLING_PROVIDER_ACCOUNT": func(i *Installation) { i.Account = "x" },
		"BILLING_GROUP":            func(i *Installation) { i.Group = "x" },
	} {
		other := pinned
		change(&other)
		err := f.Pin(t.Context(), other)
		var pe *PinError
		require.ErrorAs(t, err, &pe)
		require.Equal(t, setting, pe.Setting)
		require.ErrorContains(t, err, `"x"`)
		require.ErrorContains(t, err, setting)
	}
	require.NoError(t, f.Pin(t.Context(), pinned))
}

func TestParkedBodies(t *testing.T) {
	f := newFixture(t)
	for _, body := range [][2][]byte{{nil, []byte("\x00\xff")}, {{}, {}}, {[]byte("k"), nil}} {
		id, err := f.Park(t.Context(), body[0], body[1])
		require.NoError(t, err)
		key, value, err := f.Parked(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, body[0], key)
		require.Equal(t, body[1], value)
	}
	_, _, err := f.Parked(t.Context(), uuid.New())
	require.ErrorIs(t, err, ErrNotParked)
}
