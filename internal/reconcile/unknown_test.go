package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/failure"
)

// The whole decision: what a look-up proves about an order whose outcome is unknown.
func TestJudge(t *testing.T) {
	const settled = 75 * time.Second
	id, other := uuid.New(), uuid.New()
	row := pgstore.Row{OrderID: id, Amount: billing.Money{Minor: 500, Currency: "EUR"}, State: billing.Unknown, Quiet: settled + time.Second}
	young := row
	young.Quiet = settled
	one := func(ref uuid.UUID, minor int64, currency string) []billing.ProviderCharge {
		return []billing.ProviderCharge{{ID: "ch_1", Reference: ref, Amount: billing.Money{Minor: minor, Currency: currency}}}
	}
	good := one(id, 500, "EUR")
	for name, c := range map[string]struct {
		row        pgstore.Row
		found      []billing.ProviderCharge
		consistent bool
		proven     bool
		state      billing.State
		chargeID   string
		anomaly    string
	}{
		"found":                            {row, good, true, true, billing.Succeeded, "ch_1", ""},
		"found, whoever may be missing":    {row, good, false, true, billing.Succeeded, "ch_1", ""},
		"found, soon after the send":       {young, good, true, true, billing.Succeeded, "ch_1", ""},
		"absent":                           {row, nil, true, true, billing.RetryWait, "", ""},
		"absent, perhaps not visible":      {row, nil, false, false, "", "", ""},
		"absent, perhaps still under way":  {young, nil, true, false, "", "", ""},
		"twice":                            {row, append(one(id, 500, "EUR"), billing.ProviderCharge{ID: "ch_2"}), true, true, billing.Review, "ch_2", pgstore.AnomalySecondCharge},
		"another amount":                   {row, one(id, 501, "EUR"), true, true, billing.Review, "ch_1", pgstore.AnomalyContradiction},
		"another currency":                 {row, one(id, 500, "USD"), true, true, billing.Review, "ch_1", pgstore.AnomalyContradiction},
		"the charge of another order":      {row, one(other, 500, "EUR"), true, true, billing.Review, "ch_1", pgstore.AnomalyContradiction},
		"contradiction, soon and doubtful": {young, one(id, 501, "EUR"), false, true, billing.Review, "ch_1", pgstore.AnomalyContradiction},
	} {
		f, proven := judge(c.row, c.found, c.consistent, settled)
		require.Equal(t, c.proven, proven, name)
		if proven {
			require.Equal(t, []any{c.state, c.chargeID, c.anomaly}, []any{f.State, f.ChargeID, f.Anomaly}, name)
		}
	}
}

// A charge that is found ends everything that was open about the order, and the books stay even.
func TestFoundIsCharged(t *testing.T) {
	w := newWorld(t)
	o := w.undecided()
	charge := w.move(o)
	w.dead(o, "unknown", "open")
	w.advance()

	require.Equal(t, UnknownReport{Looked: 1, Charged: 1, Letters: 1}, w.unknown(w.reconciler()))
	h := w.row(o)
	require.Equal(t, billing.Succeeded, h.State)
	require.Equal(t, charge.ID, h.ProviderChargeID)
	require.False(t, h.Unknown)
	require.NotNil(t, h.FinalizedAt)
	last := h.Past[len(h.Past)-1]
	require.Equal(t, []any{"lookup", charge.ID, failure.Reason("")}, []any{last.Kind, last.ProviderChargeID, last.Reason})
	require.Equal(t, 1, w.count(`SELECT count(*) FROM outbox WHERE order_id = $1 AND event_type = $2`, o.ID, billing.EventSucceeded))
	require.Zero(t, w.listed())
	require.Equal(t, 1, w.count(`SELECT count(*) FROM dead_letters WHERE state = 'resolved' AND finished_at IS NOT NULL`))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE actor = 'system' AND action = 'dlq.resolve' AND target->>'order_id' = $1`, o.ID.String()))
	balance, err := w.store.Balance(t.Context(), topic)
	require.NoError(t, err)
	require.Equal(t, pgstore.Balance{Taken: 1, Charged: 1}, balance, "the record is charged, whatever its row of fates says")

	require.Equal(t, UnknownReport{}, w.unknown(w.reconciler()), "nothing is left to do")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM outbox`))
}

// Two records of one order died: the order was last tried for the second, which is charged; the first is resolved.
func TestTwinRecordsStayEven(t *testing.T) {
	w := newWorld(t)
	first := w.undecided()
	w.dead(first, "unknown", "open")
	second := first
	second.Origin.Offset = w.offset.Add(1) - 1
	w.settle(w.claim(second), billing.Settlement{State: billing.Unknown, Unknown: true, Reason: failure.ProviderTimeout})
	w.dead(second, "unknown", "open")
	w.move(first)
	w.advance()
	require.Equal(t, UnknownReport{Looked: 1, Charged: 1, Letters: 2}, w.unknown(w.reconciler()))
	balance, err := w.store.Balance(t.Context(), topic)
	require.NoError(t, err)
	require.Equal(t, pgstore.Balance{Taken: 2, Charged: 1, Resolved: 1}, balance)
}

// Letters of another class, of a replay or of an order that is not charged are none of the reconciler's business. One that
// is listed after its order was resolved is found by the next run.
func TestOnlyOpenLettersOfChargedOrdersAreResolved(t *testing.T) {
	w := newWorld(t)
	o, _ := w.charged()
	waits := w.undecided()
	w.exec(`UPDATE charges SET last_sent_at = now() WHERE order_id = $1`, waits.ID)
	r := w.reconciler(func(c *Config) { c.Settled = time.Hour })
	w.dead(o, "conflict", "open")
	o.Origin.Offset = 900
	w.dead(o, "unknown", "replaying")
	w.dead(waits, "unknown", "open")
	require.Equal(t, UnknownReport{Looked: 1, Left: 1}, w.unknown(r))
	o.Origin.Offset = 901
	w.dead(o, "unknown", "open")
	require.Equal(t, 1, w.unknown(r).Letters)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM dead_letters WHERE state = 'resolved'`))
}

// What is proven absent may be sent again; its dead letter stays open for a person.
func TestAbsentMayBeReplayed(t *testing.T) {
	w := newWorld(t)
	o := w.undecided()
	w.dead(o, "unknown", "open")
	require.Equal(t, UnknownReport{Looked: 1, NotCharged: 1}, w.unknown(w.reconciler()))
	h := w.row(o)
	require.Equal(t, billing.RetryWait, h.State)
	require.False(t, h.Unknown)
	require.Equal(t, failure.ProviderTimeout, h.Past[len(h.Past)-1].Reason, "an attempt without a reason would be a success")
	require.Zero(t, w.listed())
	require.Equal(t, 1, w.count(`SELECT count(*) FROM dead_letters WHERE state = 'open'`))
	c := w.claim(o)
	require.False(t, c.Unknown)
	require.False(t, c.FirstSentAt.IsZero(), "the next claim still knows that something was sent, and how long ago")
}

func TestNothingIsProven(t *testing.T) {
	t.Run("too soon", func(t *testing.T) {
		w := newWorld(t)
		o := w.undecided()
		require.Equal(t, UnknownReport{Looked: 1, Left: 1}, w.unknown(w.reconciler(func(c *Config) { c.Settled = 2 * time.Hour })))
		require.Equal(t, billing.Unknown, w.row(o).State)
		require.Equal(t, 1, w.listed())
	})
	t.Run("the provider may not see all charges", func(t *testing.T) {
		w := newWorld(t, func(c *providersim.Config) { c.LookupLag = time.Hour })
		o := w.undecided()
		w.move(o)
		require.Equal(t, UnknownReport{Looked: 1, Left: 1}, w.unknown(w.reconciler()))
		require.Equal(t, billing.Unknown, w.row(o).State)
	})
	t.Run("the answer cannot be read", func(t *testing.T) {
		w := newWorld(t)
		o := w.undecided()
		p := provider{Provider: w.provider, find: func(context.Context, uuid.UUID) ([]billing.ProviderCharge, bool, error) {
			return nil, false, failure.New(failure.ProviderBadAnswer, "garbage")
		}}
		require.Equal(t, UnknownReport{Looked: 1, Left: 1}, w.unknown(w.reconcilerOf(p)))
		require.Equal(t, billing.Unknown, w.row(o).State)
	})
}

func TestContradictionsGoToReview(t *testing.T) {
	w := newWorld(t)
	twice, other := w.undecided(), w.undecided()
	w.move(twice)
	second := w.move(twice)
	more := other
	more.Amount.Minor++
	wrong := w.move(more)

	for range 2 { // reported as long as nobody has decided; the anomaly is kept once
		u := w.unknown(w.reconciler())
		require.Equal(t, 2, u.Looked)
		require.Equal(t, 2, u.Findings.Total)
	}
	for o, want := range map[uuid.UUID][2]string{twice.ID: {"second_charge", second.ID}, other.ID: {"contradiction", wrong.ID}} {
		require.Equal(t, 1, w.count(`SELECT count(*) FROM charge_anomalies WHERE order_id = $1 AND kind = $2 AND provider_charge_id = $3`, o, want[0], want[1]))
		require.Equal(t, 1, w.count(`SELECT count(*) FROM charges WHERE order_id = $1 AND state = 'review' AND outcome_unknown`, o))
	}
	require.Equal(t, 2, w.listed(), "a person must see them")
	require.Zero(t, w.count(`SELECT count(*) FROM outbox`))
}

// An order that somebody works on is left alone: before the look-up, and when the claim comes during it.
func TestSomebodyWorksOnIt(t *testing.T) {
	w := newWorld(t)
	o := w.undecided()
	w.move(o)
	meanwhile := provider{Provider: w.provider}
	meanwhile.find = func(ctx context.Context, reference uuid.UUID) ([]billing.ProviderCharge, bool, error) {
		found, consistent, err := w.provider.Find(ctx, reference)
		w.claim(o)
		return found, consistent, err
	}
	require.Equal(t, UnknownReport{Looked: 1, Busy: 1}, w.unknown(w.reconcilerOf(meanwhile)))
	require.Equal(t, billing.InFlight, w.row(o).State)
	require.Equal(t, UnknownReport{Looked: 1, Busy: 1}, w.unknown(w.reconciler()))
	require.Equal(t, billing.InFlight, w.row(o).State)

	w.exec(`UPDATE charges SET lease_until = now() - interval '1 second' WHERE order_id = $1`, o.ID)
	require.Equal(t, UnknownReport{Looked: 1, Charged: 1}, w.unknown(w.reconciler()), "its lease has ended")
}

// The list is a hint: what was decided meanwhile is not looked up, and taken off.
func TestKnownMeanwhile(t *testing.T) {
	w := newWorld(t)
	o := w.undecided()
	w.settle(w.claim(o), billing.Settlement{State: billing.Succeeded, ProviderChargeID: w.move(o).ID})
	lookups := w.sim.Summary().Lookups
	require.Equal(t, UnknownReport{Looked: 1, Busy: 1}, w.unknown(w.reconciler()))
	require.Equal(t, lookups, w.sim.Summary().Lookups)
	require.Zero(t, w.listed())
}

func TestManyUnknownOutcomes(t *testing.T) {
	w := newWorld(t)
	for n := range 2*pageOfUnknown + 1 {
		if o := w.undecided(); n%2 == 0 {
			w.move(o)
		}
	}
	var seen []int
	u := w.unknown(w.reconciler(func(c *Config) { c.Progress = func(r Report) { seen = append(seen, r.Unknown.Looked) } }))
	require.Equal(t, UnknownReport{Looked: 401, Charged: 201, NotCharged: 200}, u)
	require.Equal(t, []int{200, 400, 401}, seen)
}

// A look-up that fails in passing is tried again; one that keeps failing ends the run, and what was decided stays.
func TestTheProviderFails(t *testing.T) {
	for _, c := range []struct {
		reason failure.Reason
		tries  int
	}{
		{failure.ProviderTimeout, maxTries}, {failure.Provider5xx, maxTries}, {failure.ProviderRateLimited, maxTries},
		{failure.ProviderUnauthorized, 1}, {failure.ProviderMisaddressed, 1},
	} {
		w := newWorld(t)
		o := w.undecided()
		w.move(o)
		asked, failing := 0, true
		p := provider{Provider: w.provider, find: func(ctx context.Context, reference uuid.UUID) ([]billing.ProviderCharge, bool, error) {
			asked++
			if failing {
				return nil, false, failure.New(c.reason, "not now")
			}
			return w.provider.Find(ctx, reference)
		}}
		r := w.reconcilerOf(p)
		report, err := r.Run(t.Context(), Request{Unknown: true, Range: true, From: w.begun, To: time.Now()})
		require.Error(t, err, c.reason)
		require.Equal(t, c.reason, failure.Of(err).Reason)
		require.Equal(t, c.tries, asked, c.reason)
		require.Equal(t, UnknownReport{}, *report.Unknown)
		require.Nil(t, report.Range, "not begun")
		failing = false
		require.Equal(t, 1, w.unknown(r).Charged)
	}
}

// dead is the dead letter of the order's record, with its fate.
func (w *world) dead(o billing.Order, class, state string) {
	w.t.Helper()
	at := o.Origin
	w.exec(`INSERT INTO dead_letters (topic, topic_id, partition, "offset", state, class, reason, error, failures, order_id, amount_minor, currency,
			origin_topic, origin_topic_id, origin_partition, origin_offset, dead_at, replay_id, lease_until, replay_target)
		VALUES ('orders.confirmed.dlq', $1, 0, $2, $3, $4, 'provider_timeout', 'x', 4, $5, 14990, 'EUR', 'orders.confirmed', $6, $7, $2, now(),
			CASE WHEN $3 = 'replaying' THEN gen_random_uuid() END, CASE WHEN $3 = 'replaying' THEN now() END, 'orders.confirmed')`,
		uuid.New(), at.Offset, state, class, o.ID, at.TopicID, at.Partition)
	require.NoError(w.t, w.store.RecordFate(w.t.Context(), pgstore.Fate{Origin: at, OrderID: o.ID, Kind: "dead", Reason: failure.ProviderTimeout}))
}

// advance counts every record so far as taken.
func (w *world) advance() {
	w.t.Helper()
	n := w.offset.Load()
	require.NoError(w.t, w.store.AdvanceIntake(w.t.Context(), []pgstore.Intake{{TopicID: topic, Next: n, Records: n}}))
}
