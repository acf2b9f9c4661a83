package pgstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/testkit"
)

func TestNewRefusesALeaseWithoutTimeToSend(t *testing.T) {
	f := newFixture(t)
	cfg := f.cfg
	cfg.Lease = testTimeout + sendMargin - time.Millisecond
	_, err := New(cfg)
	require.ErrorContains(t, err, "lease")
	cfg.Lease += time.Millisecond
	_, err = New(cfg)
	require.NoError(t, err)
}

func TestFirstClaim(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	before := time.Now()
	c := f.mustClaim(t, o)
	require.True(t, c.Fresh)
	require.Equal(t, o, c.Order)
	require.Equal(t, billing.IdempotencyKey("test", "default", o.ID, 1), c.Key)
	require.Equal(t, "default", c.Account)
	require.Equal(t, []int{1, 1, 0}, []int{c.Generation, c.Attempt, c.Version})
	require.False(t, c.Unknown)
	require.Zero(t, c.FirstSentAt)
	require.Zero(t, c.LastSentAt)
	require.WithinDuration(t, before, c.Now, time.Minute)
	// H1: the request's own timeout fits between the last instant to send and the end of the lease.
	require.WithinRange(t, c.SendBy, before.Add(testLease-testTimeout), time.Now().Add(testLease-testTimeout))
	require.Equal(t, c.SendBy.Add(testTimeout), c.LeaseEnd)

	h := f.history(t, o)
	require.Equal(t, billing.InFlight, h.State)
	require.Equal(t, o.Origin, h.Origin)
	require.NotNil(t, h.FirstSentAt, "the claim itself commits that something may be sent (H2)")
	require.Equal(t, h.FirstSentAt, h.LastSentAt)
}

func TestLiveLeaseStandsInTheWay(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	f.mustClaim(t, o)
	st := f.mustStand(t, o)
	require.Equal(t, billing.InFlight, st.State)
	require.True(t, st.SameContent)
	require.Equal(t, 1, f.history(t, o).Attempts)
}

// TestExpiredLease: whoever takes it over must assume that the request went out (H5).
func TestExpiredLease(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	first := f.mustClaim(t, o)
	f.expire(t, o)
	again := o
	again.Origin.Offset = 777
	second := f.mustClaim(t, again)
	require.NotEqual(t, first.ID, second.ID)
	require.False(t, second.Fresh)
	require.True(t, second.Unknown)
	require.Equal(t, 2, second.Attempt)
	require.Equal(t, first.Key, second.Key)
	require.Equal(t, first.Now, second.FirstSentAt)
	require.Equal(t, first.Now, second.LastSentAt)
	require.Equal(t, again.Origin, f.history(t, o).Origin)
}

// TestKeyAndAccountAreTheRows: a renamed environment or another account between two attempts changes neither (H6).
func TestKeyAndAccountAreTheRows(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	first := f.mustClaim(t, o)
	f.mustSettle(t, first, notSent(first))
	renamed := &fixture{Store: startStore(t, f.pool, func(c *Config) { c.Environment, c.Account = "prod", "other" }), pool: f.pool, other: f.other}
	second := renamed.mustClaim(t, o)
	require.Equal(t, first.Key, second.Key)
	require.Equal(t, "default", second.Account)
}

// TestOtherContent decides the message, never the row: the good order that waits is still charged (H19).
func TestOtherContent(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	c := f.mustClaim(t, o)
	f.mustSettle(t, c, notSent(c))
	before := f.history(t, o)
	for name, change := range map[string]func(*billing.Order){
		"amount":   func(o *billing.Order) { o.Amount.Minor++ },
		"currency": func(o *billing.Order) { o.Amount.Currency = "USD" },
		"customer": func(o *billing.Order) { o.CustomerID = uuid.New() },
	} {
		other := o
		change(&other)
		st := f.mustStand(t, other)
		require.False(t, st.SameContent, name)
		require.Equal(t, billing.RetryWait, st.State, name)
		require.Equal(t, "EUR", st.Currency, name)
	}
	require.Equal(t, before, f.history(t, o), "untouched")
	f.mustClaim(t, o)
}

func TestUnknownIsSticky(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	c := f.mustClaim(t, o)
	require.True(t, f.mustSettle(t, c, unknown(failure.ProviderTimeout)))
	sentAt := f.history(t, o).FirstSentAt
	for range 3 {
		c = f.mustClaim(t, o)
		require.True(t, c.Unknown)
		require.True(t, sentAt.Equal(c.FirstSentAt), "%s, %s", sentAt, c.FirstSentAt)
		f.mustSettle(t, c, notSent(c))
		h := f.history(t, o)
		require.Equal(t, billing.Unknown, h.State)
		require.True(t, h.Unknown)
	}
}

// TestFinalRows: only a success of the same content is a duplicate; a refusal comes with its reason (H4).
func TestFinalRows(t *testing.T) {
	f := newFixture(t)
	for _, row := range []struct {
		settle func(*billing.Claim) billing.Settlement
		want   billing.Standing
	}{
		{func(c *billing.Claim) billing.Settlement { return succeeded(c, "ch_9") }, billing.Standing{State: billing.Succeeded, ProviderChargeID: "ch_9"}},
		{func(c *billing.Claim) billing.Settlement { return refusal(c, billing.Declined, failure.Declined) }, billing.Standing{State: billing.Declined, Reason: failure.Declined}},
		{func(c *billing.Claim) billing.Settlement {
			return refusal(c, billing.Rejected, failure.ProviderBadRequest)
		}, billing.Standing{State: billing.Rejected, Reason: failure.ProviderBadRequest}},
		{func(*billing.Claim) billing.Settlement { return settlement(billing.Review, failure.KeyReused) }, billing.Standing{State: billing.Review, Reason: failure.KeyReused}},
	} {
		o := f.order()
		c := f.mustClaim(t, o)
		require.True(t, f.mustSettle(t, c, row.settle(c)))
		row.want.SameContent, row.want.Currency, row.want.Origin = true, "EUR", o.Origin
		again := o
		again.Origin.Offset = 5000
		require.Equal(t, &row.want, f.mustStand(t, again))
		require.Equal(t, o.Origin, f.history(t, o).Origin, "a claim that was refused leaves no trace")
	}
}

// TestOneWinnerOfTwenty: the race that this package exists for.
func TestOneWinnerOfTwenty(t *testing.T) {
	f := newFixture(t)
	second := startStore(t, f.pool) // another process
	for range 50 {
		o := f.order()
		var wg sync.WaitGroup
		claims, standings := make(chan *billing.Claim, 20), make(chan *billing.Standing, 20)
		for i := range 20 {
			s := []*Store{f.Store, second}[i%2]
			wg.Go(func() {
				c, st, err := s.Claim(t.Context(), o)
				require.NoError(t, err)
				if c != nil {
					claims <- c
				} else {
					standings <- st
				}
			})
		}
		wg.Wait()
		require.Len(t, claims, 1)
		require.Len(t, standings, 19)
		for range 19 {
			require.Equal(t, billing.InFlight, (<-standings).State)
		}
	}
}

// TestSixteenBatchesOfTheSameOrders: also without a deadlock, since all take their rows in one order.
func TestSixteenBatchesOfTheSameOrders(t *testing.T) {
	f := newFixture(t)
	orders := make([]billing.Order, 200)
	for i := range orders {
		orders[i] = f.order()
	}
	var wg sync.WaitGroup
	winners := make(chan uuid.UUID, 16*len(orders))
	for range 16 {
		wg.Go(func() {
			batch := make([]*claimJob, len(orders))
			for i, at := range rand.Perm(len(orders)) {
				o := orders[at]
				batch[i] = &claimJob{in: claimRequest{id: uuid.New(), order: o, fingerprint: o.Fingerprint()}}
			}
			f.claimBatch(batch, false)
			for _, j := range batch {
				require.NoError(t, j.err)
				if j.out.claim != nil {
					winners <- j.in.order.ID
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, winners, 200)
	f.pool.Close() // the sessions report what they counted when they end
	require.Zero(t, f.count(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`))
	require.Equal(t, 200, f.count(t, `SELECT count(*) FROM charges WHERE attempts = 1`))
}

// TestTwinsAtOnce: the loser of a batch is claimed by the next one, with its own fingerprint (H9).
func TestTwinsAtOnce(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	twin := o
	twin.Amount.Minor++
	var wg sync.WaitGroup
	var mu sync.Mutex
	var claimed int
	var other []*billing.Standing
	for i := range 40 {
		wg.Go(func() {
			c, st, err := f.Claim(t.Context(), []billing.Order{o, twin}[i%2])
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			if c != nil {
				claimed++
			} else if !st.SameContent {
				other = append(other, st)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, claimed)
	require.Len(t, other, 20, "those with the other content")
}

func TestPoisonAmidGoodOrders(t *testing.T) {
	f := newFixture(t)
	for name, spoil := range map[string]func(*billing.Order){
		"NUL":        func(o *billing.Order) { o.Amount.Currency = "E\x00R" },
		"bad UTF-8":  func(o *billing.Order) { o.Amount.Currency = "E\xffR" },
		"constraint": func(o *billing.Order) { o.Amount.Minor = 0 },
	} {
		batch := make([]*claimJob, 201)
		for i := range batch {
			o := f.order()
			if i == 77 {
				spoil(&o)
			}
			batch[i] = &claimJob{in: claimRequest{id: uuid.New(), order: o, fingerprint: o.Fingerprint()}}
		}
		f.claimBatch(batch, false)
		for i, j := range batch {
			if i == 77 {
				requireReason(t, failure.DatabaseRefused, j.err)
			} else {
				require.NoError(t, j.err, name)
				require.NotNil(t, j.out.claim, name)
			}
		}
	}
}

// TestLostAnswerToAClaim: the first try was committed, but nobody heard of it. The second finds its own claim.
func TestLostAnswerToAClaim(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	j := &claimJob{in: claimRequest{id: uuid.New(), order: o, fingerprint: o.Fingerprint()}}
	f.claimBatch([]*claimJob{j}, false)
	require.True(t, j.out.claim.Fresh)
	again := &claimJob{in: j.in}
	f.claimBatch([]*claimJob{again}, false)
	require.NoError(t, again.err)
	require.NotNil(t, again.out.claim)
	require.Equal(t, j.out.claim.ID, again.out.claim.ID)
	require.True(t, again.out.claim.Fresh)
	require.Equal(t, 1, again.out.claim.Attempt)
}

// TestCallerGone: a claim that nobody waits for any more is given back, with nothing sent.
func TestCallerGone(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	f.mustClaim(t, o) // a row, so that it can be locked
	f.expire(t, o)
	tx, err := f.other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM charges WHERE order_id = $1 FOR UPDATE`, o.ID)
	require.NoError(t, err)

	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, _, err := f.Claim(ctx, o); left <- err }()
	testkit.Eventually(t, func() bool {
		return f.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	}, "the claim waits for the row")
	leave()
	require.ErrorIs(t, testkit.Receive(t, left, "the caller leaves at once"), context.Canceled)
	require.NoError(t, tx.Rollback(t.Context()))
	testkit.Eventually(t, func() bool { return f.history(t, o).State == billing.Unknown }, "the claim is given back")
	h := f.history(t, o)
	require.Equal(t, 2, h.Attempts)
	require.Equal(t, "system", h.Past[0].Kind)
	require.Nil(t, h.LeaseUntil)
}
