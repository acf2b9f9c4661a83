package pgstore

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

func (f *fixture) check(t testing.TB) Books {
	t.Helper()
	b, err := f.CheckBooks(t.Context(), topic)
	require.NoError(t, err)
	return b
}

// TestEachFlawIsFound breaks even books in one way after the other, and mends them again.
func TestEachFlawIsFound(t *testing.T) {
	f := newFixture(t)
	charged := make([]billing.Order, 8) // 0 to 7
	for i := range charged {
		charged[i] = f.order()
		c := f.mustClaim(t, charged[i])
		f.mustSettle(t, c, succeeded(c, "ch_"+c.Order.ID.String()))
	}
	dead, waiting := f.order(), f.order() // 8 and 9
	f.mustRecord(t, dead, "dead")
	f.mustRecord(t, charged[1], "waiting") // from before
	f.mustRecord(t, charged[2], "dead")
	w := f.mustClaim(t, waiting)
	f.mustSettle(t, w, unknown(failure.ProviderTimeout))
	f.mustRecord(t, waiting, "waiting")
	f.mustAdvance(t, 0, 10, 10)
	f.mustClaim(t, f.order()) // 10 is in flight
	even := f.check(t)
	require.Empty(t, even.Flaws)
	require.Equal(t, Balance{Taken: 10, Charged: 8, Dead: 1, Waiting: 1}, even.Total)
	require.Equal(t, even.Total, even.Partitions[0])
	require.WithinDuration(t, time.Now(), even.At, time.Minute)

	none := uuid.UUID{}
	a, b, at := charged[3].ID, charged[4].ID, func(from, to int64) []Offsets { return []Offsets{{from, to}} }
	for _, c := range []struct {
		kind    FlawKind
		sql     string
		args    []any
		records int64
		offsets []Offsets
		orders  []uuid.UUID
	}{
		{NoFate, `DELETE FROM record_fates WHERE "offset" = 8`, nil, 1, at(8, 8), nil},
		{NoFate, `DELETE FROM charges WHERE origin_offset BETWEEN 4 AND 6`, nil, 3, at(4, 6), nil},
		{NoFate, `UPDATE intake SET next_offset = 13, records = 12`, nil, 1, at(11, 12), nil}, // one of the two was a hole
		{Unsettled, `UPDATE intake SET next_offset = 11, records = 11`, nil, 1, at(10, 10), nil},
		{Unsettled, `DELETE FROM record_fates WHERE "offset" = 9`, nil, 1, at(9, 9), nil},
		{NotCounted, `UPDATE intake SET records = 9`, nil, 1, nil, nil},
		{TwoOrders, `UPDATE charges SET origin_offset = 3 WHERE order_id = $1`, []any{b}, 1, at(3, 3), []uuid.UUID{a, b}},
		{TwoOrders, `UPDATE charges SET origin_offset = 2 WHERE order_id = $1`, []any{b}, 1, at(2, 2), []uuid.UUID{charged[2].ID, b}}, // with a fate from before
		{TwoFates, `INSERT INTO record_fates (topic_id, partition, "offset", order_id, fate) VALUES ($1, 0, 3, $2, 'duplicate')`, []any{topic, a}, 1, at(3, 3), []uuid.UUID{a}},
		{TwoFates, `UPDATE record_fates SET order_id = $1 WHERE "offset" = 1`, []any{a}, 1, at(1, 1), []uuid.UUID{charged[1].ID}},
		{NoEvent, `UPDATE charges SET event_version = 0 WHERE order_id = $1`, []any{a}, 0, nil, []uuid.UUID{a}},
		{EventOnly, `UPDATE outbox SET order_id = $1 WHERE order_id = $2`, []any{waiting.ID, a}, 0, nil, []uuid.UUID{waiting.ID}},
		{DecidedUnknown, `UPDATE charges SET outcome_unknown = true WHERE order_id = $1`, []any{a}, 0, nil, []uuid.UUID{a}},
		{UnlistedUnknown, `DELETE FROM unknown_outcomes`, nil, 0, nil, []uuid.UUID{waiting.ID}},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			found := f.checkBroken(t, c.sql, c.args...)
			var orders []uuid.UUID
			for _, flaw := range found.Flaws {
				if c.kind == TwoOrders && (flaw.Kind == NoFate || flaw.Kind == TwoFates) || c.kind == NoFate && (flaw.Kind == EventOnly || flaw.Kind == Unsettled) {
					continue // the record that lost its order to another's, the event that lost its charge, the order in flight
				}
				require.Equal(t, c.kind, flaw.Kind)
				require.Equal(t, []any{c.records, c.offsets}, []any{flaw.Records, flaw.Offsets})
				if flaw.OrderID != nil && *flaw.OrderID != none {
					orders = append(orders, *flaw.OrderID)
				}
			}
			require.ElementsMatch(t, c.orders, orders)
			require.NotEmpty(t, found.Flaws)
		})
	}
	again := f.check(t)
	require.Equal(t, []any{even.Total, even.Flaws}, []any{again.Total, again.Flaws})
}

// checkBroken checks books that the statement has changed, and changes them back.
func (f *fixture) checkBroken(t *testing.T, sql string, args ...any) (found Books) {
	t.Helper()
	tx, err := f.other.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`) // without the guard
	require.NoError(t, err)
	tag, err := tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	require.Positive(t, tag.RowsAffected(), "nothing is broken")
	require.NoError(t, found.read(t.Context(), tx, topic))
	return found
}

// shop is a small service around the store: records of two partitions, handled by many at once, some of them again and
// again, under everything that can happen to a claim.
type shop struct {
	*fixture
	t       *testing.T
	records chan record
	mu      sync.Mutex
	done    [2]map[int64]bool
	next    [2]int64
	open    atomic.Int64

	checks, busy atomic.Int64
}

type record struct {
	order    billing.Order
	failures int
}

// TestBooksAreEvenWhileWorkGoesOn looks at the books again and again, in the middle of everything. There is no instant at
// which they are not even.
func TestBooksAreEvenWhileWorkGoesOn(t *testing.T) {
	const records, handlers = 1200, 24
	s := &shop{fixture: newFixture(t), t: t, records: make(chan record, records)}
	s.open.Store(records)
	orders := make([]billing.Order, records*3/4) // every third one or so comes twice
	for i := range orders {
		orders[i] = s.order()
	}
	for i := range records {
		o := orders[i%len(orders)]
		o.Origin.Partition, o.Origin.Offset = int32(i%2), int64(i/2)
		s.records <- record{order: o}
	}
	s.done = [2]map[int64]bool{{}, {}}
	var work sync.WaitGroup
	for range handlers {
		work.Go(s.handleAll)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); work.Wait() }()
	var others sync.WaitGroup
	others.Go(func() { until(ended, s.commit) })
	others.Go(func() { until(ended, s.reconcile) })
	until(ended, s.look)
	others.Wait()
	s.commit()
	b := s.check(t)
	t.Logf("%d checks, %d of them while records waited; %+v", s.checks.Load(), s.busy.Load(), b.Total)
	require.Positive(t, s.busy.Load())
	require.Empty(t, b.Flaws)
	require.Equal(t, []int64{records, 0, 0}, []int64{b.Total.Taken, b.Total.Difference, b.Total.Waiting})
}

// until repeats until the channel is closed.
func until(ended <-chan struct{}, do func()) {
	for {
		select {
		case <-ended:
			return
		default:
			do()
		}
	}
}

func (s *shop) handleAll() {
	for r := range s.records {
		durable, waits := false, false
		for !durable { // else nobody has taken responsibility: the consumer hands it over again
			durable, waits = s.handle(&r)
			s.glance()
		}
		s.finish(r.order.Origin)
		s.glance()
		if waits {
			s.records <- r // from a tier, later
		} else if s.open.Add(-1) == 0 {
			close(s.records)
		}
	}
}

// handle does with a record what service and router do.
func (s *shop) handle(r *record) (durable, waits bool) {
	o := r.order
	c, standing, err := s.Claim(s.t.Context(), o)
	require.NoError(s.t, err)
	s.glance()
	switch {
	case c != nil:
		return s.attempt(r, c)
	case standing.State == billing.InFlight:
		return false, false
	case standing.State != billing.Succeeded:
		s.mustRecord(s.t, o, "dead")
	case standing.Origin != o.Origin:
		s.mustRecord(s.t, o, "duplicate")
	}
	return true, false
}

func (s *shop) attempt(r *record, c *billing.Claim) (durable, waits bool) {
	charge := "ch_" + c.Order.ID.String()
	st := succeeded(c, charge)
	switch chance := rand.IntN(100); {
	case chance < 10: // the process dies or freezes; it may wake up late
		_, err := s.other.Exec(s.t.Context(), `UPDATE charges SET lease_until = now() - interval '1 s' WHERE claim_id = $1`, c.ID)
		require.NoError(s.t, err)
		if chance < 3 {
			s.mustSettle(s.t, c, st)
		} else if chance < 5 {
			s.mustSettle(s.t, c, unknown(failure.ProviderTimeout))
		}
		return false, false
	case chance < 30:
		st = unknown(failure.ProviderTimeout)
	case chance < 40:
		st = notSent(c)
	case chance < 45 && !c.Unknown:
		st = refusal(c, billing.Declined, failure.Declined)
	}
	held := s.mustSettle(s.t, c, st)
	s.glance()
	switch {
	case st.State == billing.Succeeded:
		return true, false
	case !held:
		return false, false
	case st.State == billing.Declined || r.failures == 3:
		s.mustRecord(s.t, c.Order, "dead")
		return true, false
	}
	r.failures++
	s.mustRecord(s.t, c.Order, "waiting")
	return true, true
}

// glance looks between two steps of a record, now and then, with everything counted that may be.
func (s *shop) glance() {
	if rand.IntN(50) == 0 {
		s.commit()
		s.look()
	}
}

func (s *shop) look() {
	b := s.check(s.t)
	require.Empty(s.t, b.Flaws)
	for p, b := range b.Partitions {
		require.Zero(s.t, b.Difference, "partition %d: %+v", p, b)
	}
	s.checks.Add(1)
	if b.Total.Waiting > 0 {
		s.busy.Add(1)
	}
}

func (s *shop) finish(o billing.Origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[o.Partition][o.Offset] = true
}

// commit counts the records that are finished without a gap.
func (s *shop) commit() {
	var ranges []Intake
	s.mu.Lock()
	defer s.mu.Unlock() // a range is counted before the next one begins
	for p := range s.done {
		from := s.next[p]
		for s.done[p][s.next[p]] {
			s.next[p]++
		}
		if n := s.next[p] - from; n > 0 {
			ranges = append(ranges, Intake{TopicID: topic, Partition: int32(p), From: from, Next: s.next[p], Records: n})
		}
	}
	require.NoError(s.t, s.AdvanceIntake(s.t.Context(), ranges))
}

// reconcile finds out what is unknown, sweeps expired leases, and takes off the list what is known.
func (s *shop) reconcile() {
	ctx := s.t.Context()
	listed, err := s.ListUnknown(ctx, uuid.Nil, 50)
	require.NoError(s.t, err)
	rows, err := s.Rows(ctx, listed)
	require.NoError(s.t, err)
	for _, row := range rows {
		if row.Undecided() {
			_, err := s.Resolve(ctx, row, Finding{State: billing.Succeeded, ChargeID: "ch_" + row.OrderID.String(), Started: time.Now()})
			require.NoError(s.t, err)
		}
	}
	pages, err := s.Pages(ctx)
	require.NoError(s.t, err)
	_, err = s.Sweep(ctx, 0, pages, 0)
	require.NoError(s.t, err)
	_, err = s.ForgetKnown(ctx)
	require.NoError(s.t, err)
}
