package billing

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

const (
	testWindow     = 20 * time.Hour
	testProcessing = time.Minute
)

var testNow = time.Unix(1_800_000_000, 0)

// desk plays the store and the provider: it hands out one claim and records what was settled and sent.
type desk struct {
	claim    *Claim
	standing *Standing
	orders   []Order // claims asked for

	answer     error
	call       Call
	sent       int
	deadlines  []time.Time // of the calls to the provider
	panics     bool
	found      []ProviderCharge
	consistent bool
	findErr    error
	lookups    int

	settled   []Settlement
	settleErr []error // returned first, one a try
	unwritten []failure.Reason
	lost      bool
	flood     bool // every verdict is withheld
}

func (d *desk) Claim(_ context.Context, o Order) (*Claim, *Standing, error) {
	d.orders = append(d.orders, o)
	if d.standing != nil && len(d.orders) == 1 {
		return nil, d.standing, nil
	}
	c := *d.claim
	c.Order = o
	if c.SendBy.IsZero() {
		c.SendBy = testNow.Add(5 * time.Second)
	}
	return &c, nil, nil
}

func (d *desk) Settle(_ context.Context, _ *Claim, s Settlement) (bool, error) {
	if len(d.settleErr) > 0 {
		err := d.settleErr[0]
		d.settleErr = d.settleErr[1:]
		return false, err
	}
	d.settled = append(d.settled, s)
	return !d.lost, nil
}

func (d *desk) Charge(ctx context.Context, _ ChargeRequest) (ProviderCharge, Call, error) {
	d.sent++
	d.noteDeadline(ctx)
	if d.panics {
		panic("index out of range")
	}
	return ProviderCharge{ID: "ch_1"}, d.call, d.answer
}

func (d *desk) Find(ctx context.Context, _ uuid.UUID) ([]ProviderCharge, bool, error) {
	d.lookups++
	d.noteDeadline(ctx)
	return d.found, d.consistent, d.findErr
}

func (d *desk) verdict(_ string, f *failure.Error) {
	if f.Verdict = failure.Dies; d.flood {
		f.Verdict = failure.Withheld
	}
}

func (d *desk) noteUnwritten(_ Order, f *failure.Error) { d.unwritten = append(d.unwritten, f.Reason) }

func (d *desk) noteDeadline(ctx context.Context) {
	deadline, _ := ctx.Deadline()
	d.deadlines = append(d.deadlines, deadline)
}

func newTestService(t *testing.T, d *desk) *Service {
	t.Helper()
	s, err := NewService(d, d, ServiceConfig{InFlight: 2, Window: testWindow, MaxProcessing: testProcessing, Verdict: d.verdict, Unwritten: d.noteUnwritten, Clock: func() time.Time { return testNow }, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return s
}

func testOrder() Order {
	return Order{ID: uuid.MustParse("0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a01"), Amount: Money{14990, "EUR"}, AmountText: "149.90"}
}

func freshClaim() *Claim { return &Claim{Generation: 1, Now: testNow, Fresh: true} }

// What is stored for each answer, without and with an earlier attempt that may have moved money. H5: unknown is sticky.
func TestAnswers(t *testing.T) {
	sent := Call{Sent: true, Status: 1}
	contradiction := &failure.Error{Reason: failure.ProviderBadAnswer, Err: ErrContradiction, Unknown: true}
	for _, c := range []struct {
		name        string
		err         error
		call        Call
		state       State // after no earlier unknown attempt
		afterUnsure State
		event       string
	}{
		{"charged", nil, sent, Succeeded, Succeeded, EventSucceeded},
		{"declined", failure.New(failure.Declined, "402"), sent, Declined, Declined, EventFailed},
		{"bad request", failure.New(failure.ProviderBadRequest, "400"), sent, Rejected, Unknown, EventFailed},
		{"rejected", failure.New(failure.ProviderRejected, "422"), sent, Rejected, Unknown, EventFailed},
		{"key reused", failure.New(failure.KeyReused, "422"), sent, Review, Review, ""},
		{"contradiction", contradiction, sent, Review, Review, ""},
		{"timeout", failure.New(failure.ProviderTimeout, "t"), sent, Unknown, Unknown, ""},
		{"reset", failure.New(failure.ProviderReset, "t"), sent, Unknown, Unknown, ""},
		{"5xx", failure.New(failure.Provider5xx, "503"), sent, Unknown, Unknown, ""},
		{"408", failure.New(failure.ProviderTryAgain, "408"), sent, Unknown, Unknown, ""},
		{"in progress", failure.New(failure.ProviderInProgress, "409"), sent, Unknown, Unknown, ""},
		{"bad answer", failure.New(failure.ProviderBadAnswer, "200"), sent, Unknown, Unknown, ""},
		{"rate limited", failure.New(failure.ProviderRateLimited, "429"), sent, RetryWait, Unknown, ""},
		{"refused", failure.New(failure.ProviderUnreachable, "refused"), Call{}, RetryWait, Unknown, ""},
		{"unauthorized", failure.New(failure.ProviderUnauthorized, "401"), sent, RetryWait, Unknown, ""},
		{"misaddressed", failure.New(failure.ProviderMisaddressed, "404"), sent, RetryWait, Unknown, ""},
		{"tls", failure.New(failure.ProviderTLS, "tls"), Call{}, RetryWait, Unknown, ""},
		{"stopped after the send", &failure.Error{Reason: failure.ShuttingDown, Unknown: true}, sent, Unknown, Unknown, ""},
		{"stopped before the send", context.Canceled, Call{}, RetryWait, Unknown, ""},
		{"no opinion", errors.New("what"), sent, Unknown, Unknown, ""},
	} {
		for _, unsure := range []bool{false, true} {
			name, want := c.name, c.state
			if unsure {
				name, want = name+" after an unknown outcome", c.afterUnsure
			}
			t.Run(name, func(t *testing.T) {
				claim := freshClaim()
				claim.Unknown = unsure
				d := &desk{claim: claim, answer: c.err, call: c.call}
				_, err := newTestService(t, d).Charge(t.Context(), testOrder())
				require.Equal(t, c.err == nil, err == nil)
				require.Len(t, d.settled, 1)
				got := d.settled[0]
				require.Equal(t, want, got.State)
				require.Equal(t, want == Unknown || want == Review, got.Unknown)
				require.Equal(t, c.call.Sent || want == Review, got.Sent)
				final := want == Succeeded || want == Declined || want == Rejected
				require.Equal(t, final, got.Event != nil, "an event for each final state and for no other")
				if final {
					require.Equal(t, c.event, got.Event.Type)
					require.Equal(t, 1, got.Event.Version)
				}
				if err != nil {
					require.Equal(t, want == Unknown || want == Review, failure.Of(err).Unknown, "the dead letter's class follows the row")
				}
			})
		}
	}
}

func TestPanicAfterTheClaimIsUnknown(t *testing.T) { // H5
	d := &desk{claim: freshClaim(), panics: true}
	_, err := newTestService(t, d).Charge(t.Context(), testOrder())
	require.Equal(t, failure.Panic, failure.Of(err).Reason)
	require.Equal(t, Unknown, d.settled[0].State)
	require.True(t, d.settled[0].Sent)
}

func TestStandings(t *testing.T) { // H4, H19
	origin := Origin{Partition: 1, Offset: 7}
	for _, c := range []struct {
		name      string
		standing  Standing
		reason    failure.Reason // empty: a duplicate
		fault     failure.Fault
		unknown   bool
		sameAgain bool
	}{
		{"charged for another record", Standing{State: Succeeded, SameContent: true, ProviderChargeID: "ch_1", Origin: Origin{Offset: 1}}, "", 0, false, false},
		{"charged for this record", Standing{State: Succeeded, SameContent: true, ProviderChargeID: "ch_1", Origin: origin}, "", 0, false, true},
		{"charged with other content", Standing{State: Succeeded, Currency: "EUR"}, failure.OrderConflict, failure.OfMessage, false, false},
		{"waiting with other content", Standing{State: RetryWait, Currency: "EUR"}, failure.OrderConflict, failure.OfMessage, false, false},
		{"declined", Standing{State: Declined, SameContent: true, Reason: failure.Declined}, failure.Declined, failure.OfMessage, false, false},
		{"rejected", Standing{State: Rejected, SameContent: true, Reason: failure.ProviderBadRequest}, failure.ProviderBadRequest, failure.OfMessage, false, false},
		{"in review", Standing{State: Review, SameContent: true, Reason: failure.ProviderBadAnswer}, failure.ProviderBadAnswer, failure.OfMessage, true, false},
		{"in flight elsewhere", Standing{State: InFlight, SameContent: true}, failure.OrderBusy, failure.OfMoment, false, false},
		{"changed while we looked", Standing{State: Unknown, SameContent: true}, failure.OrderBusy, failure.OfMoment, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &desk{standing: &c.standing}
			o := testOrder()
			o.Origin = origin
			receipt, err := newTestService(t, d).Charge(t.Context(), o)
			require.Zero(t, d.sent, "the provider is not asked")
			if c.reason == "" {
				require.NoError(t, err)
				require.Equal(t, Receipt{ProviderChargeID: "ch_1", Duplicate: true, SameRecord: c.sameAgain}, receipt)
				return
			}
			f := failure.Of(err)
			require.Equal(t, c.reason, f.Reason)
			require.Equal(t, c.fault, f.Fault(failure.Hold))
			require.Equal(t, c.unknown, f.Unknown)
			require.False(t, f.Answered, "the provider was not asked")
		})
	}
}

func TestFirstClaimsCurrencyCounts(t *testing.T) { // H6
	d := &desk{claim: freshClaim(), standing: &Standing{State: RetryWait, Currency: "JPY"}}
	o := testOrder()
	o.CurrencyIsDefault, o.AmountText = true, "500"
	_, err := newTestService(t, d).Charge(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, d.orders, 2)
	require.Equal(t, Money{500, "JPY"}, d.orders[1].Amount)

	d = &desk{claim: freshClaim(), standing: &Standing{State: RetryWait, Currency: "JPY"}}
	o.AmountText = "149.90"
	_, err = newTestService(t, d).Charge(t.Context(), o)
	require.Equal(t, failure.OrderConflict, failure.Of(err).Reason, "no yen amount: other content")

	d = &desk{claim: freshClaim(), standing: &Standing{State: RetryWait, Currency: "JPY"}}
	o.CurrencyIsDefault, o.AmountText = false, "500"
	_, err = newTestService(t, d).Charge(t.Context(), o)
	require.Equal(t, failure.OrderConflict, failure.Of(err).Reason, "the event named its currency")
}

// When a send might be a second charge, the provider is asked first; only a consistent absence permits the send (H2, H3).
func TestLookUpBeforeSend(t *testing.T) {
	charge := ProviderCharge{ID: "ch_0", Reference: testOrder().ID, Amount: testOrder().Amount}
	other := charge
	other.Amount.Minor++
	longAgo := testNow.Add(-testWindow - time.Second)
	for _, c := range []struct {
		name       string
		claim      Claim
		mayBeKnown bool
		found      []ProviderCharge
		consistent bool
		findErr    error
		lookups    int
		sent       int
		state      State
	}{
		{name: "never sent", claim: Claim{}, sent: 1, state: Succeeded},
		{name: "sent inside the window", claim: Claim{FirstSentAt: testNow.Add(-time.Hour), LastSentAt: testNow.Add(-time.Hour), Unknown: true}, sent: 1, state: Succeeded},
		{name: "past the window, found", claim: Claim{FirstSentAt: longAgo, LastSentAt: longAgo, Unknown: true}, found: []ProviderCharge{charge}, consistent: true, lookups: 1, state: Succeeded},
		{name: "past the window, found though inconsistent", claim: Claim{FirstSentAt: longAgo, LastSentAt: longAgo, Unknown: true}, found: []ProviderCharge{charge}, lookups: 1, state: Succeeded},
		{name: "past the window, proven absent", claim: Claim{FirstSentAt: longAgo, LastSentAt: longAgo, Unknown: true}, consistent: true, lookups: 1, sent: 1, state: Succeeded},
		{name: "past the window, not consistent", claim: Claim{FirstSentAt: longAgo, LastSentAt: longAgo, Unknown: true}, lookups: 1, state: Unknown},
		{name: "past the window, sent a moment ago", claim: Claim{FirstSentAt: longAgo, LastSentAt: testNow.Add(-time.Second), Unknown: true}, consistent: true, lookups: 1, state: Unknown},
		{name: "past the window, look-up fails", claim: Claim{FirstSentAt: longAgo, LastSentAt: longAgo, Unknown: true}, findErr: failure.New(failure.ProviderUnreachable, "x"), lookups: 1, state: Unknown},
		{name: "past the window, other amount", claim: Claim{FirstSentAt: longAgo, LastSentAt: longAgo, Unknown: true}, found: []ProviderCharge{other}, consistent: true, lookups: 1, state: Review},
		{name: "past the window, two charges", claim: Claim{FirstSentAt: longAgo, LastSentAt: longAgo, Unknown: true}, found: []ProviderCharge{charge, charge}, consistent: true, lookups: 1, state: Review},
		{name: "sent in the future: the clock fell", claim: Claim{FirstSentAt: testNow.Add(time.Hour), LastSentAt: testNow.Add(time.Hour)}, consistent: true, lookups: 1, state: RetryWait},
		{name: "no row, but the record is old: found", claim: Claim{Fresh: true}, mayBeKnown: true, found: []ProviderCharge{charge}, consistent: true, lookups: 1, state: Succeeded},
		{name: "no row, but the record is old: absent", claim: Claim{Fresh: true}, mayBeKnown: true, consistent: true, lookups: 1, sent: 1, state: Succeeded},
		{name: "no row, old, look-up fails: asked again next time", claim: Claim{Fresh: true}, mayBeKnown: true, findErr: failure.New(failure.ProviderUnreachable, "x"), lookups: 1, state: RetryWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.claim.Generation, c.claim.Now = 1, testNow
			d := &desk{claim: &c.claim, found: c.found, consistent: c.consistent, findErr: c.findErr, call: Call{Sent: true}}
			o := testOrder()
			o.MayBeKnown = c.mayBeKnown
			_, _ = newTestService(t, d).Charge(t.Context(), o) // the state tells
			require.Equal(t, c.lookups, d.lookups)
			require.Equal(t, c.sent, d.sent)
			require.Equal(t, c.state, d.settled[0].State)
		})
	}
}

// Look-up and request end with the lease; the settlement does not, since only it can tell who holds the row.
func TestNothingIsAwaitedPastTheLease(t *testing.T) {
	claim := freshClaim()
	claim.LeaseEnd = testNow.Add(time.Hour)
	d := &desk{claim: claim, consistent: true, call: Call{Sent: true}}
	o := testOrder()
	o.MayBeKnown = true
	before := time.Now()
	_, err := newTestService(t, d).Charge(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, d.deadlines, 2, "a look-up and a charge")
	for _, deadline := range d.deadlines {
		require.WithinRange(t, deadline, before.Add(time.Hour), time.Now().Add(time.Hour))
	}

	claim.LeaseEnd = testNow.Add(-time.Hour)
	d = &desk{claim: claim, answer: failure.New(failure.ProviderTimeout, "t"), call: Call{Sent: true}}
	_, err = newTestService(t, d).Charge(t.Context(), testOrder())
	require.Error(t, err)
	require.Len(t, d.settled, 1)
}

func TestOutcomeIsKeptUntilItIsWritten(t *testing.T) {
	d := &desk{claim: freshClaim(), call: Call{Sent: true}, settleErr: []error{
		errors.New("database gone"), failure.New(failure.DatabaseSchema, "still gone"), failure.New(failure.DatabaseRefused, "this row"),
	}}
	receipt, err := newTestService(t, d).Charge(t.Context(), testOrder())
	require.NoError(t, err)
	require.Equal(t, "ch_1", receipt.ProviderChargeID)
	require.Len(t, d.settled, 1)
	require.Equal(t, 1, d.sent, "it is not sent again for that")
	require.Equal(t, []failure.Reason{failure.Unclassified, failure.DatabaseSchema, failure.DatabaseRefused}, d.unwritten, "the line hears of it")
}

func TestALostClaimPublishesNothing(t *testing.T) { // H17
	d := &desk{claim: freshClaim(), lost: true, answer: failure.New(failure.Declined, "402"), call: Call{Sent: true}}
	_, err := newTestService(t, d).Charge(t.Context(), testOrder())
	require.Equal(t, failure.OrderBusy, failure.Of(err).Reason)

	d = &desk{claim: freshClaim(), lost: true, call: Call{Sent: true}}
	_, err = newTestService(t, d).Charge(t.Context(), testOrder())
	require.NoError(t, err, "a success is stored all the same")
}

func TestSettleGivesUpAfterTheGrace(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := make([]error, 1000)
	for i := range gone {
		gone[i] = errors.New("database gone")
	}
	d := &desk{claim: freshClaim(), call: Call{Sent: true}, settleErr: gone}
	cancel()
	_, err := newTestService(t, d).Charge(ctx, testOrder())
	require.ErrorContains(t, err, "database gone")
}

// A claim that took so long that nothing may be sent any more is the database's slowness: the provider was never asked.
func TestALateClaimIsNotTheProvidersFault(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		d := &desk{claim: freshClaim()}
		d.claim.SendBy, d.claim.Unknown = testNow, unknown
		_, err := newTestService(t, d).Charge(t.Context(), testOrder())
		f := failure.Of(err)
		require.Equal(t, failure.DatabaseBusy, f.Reason)
		require.True(t, f.Uncounted)
		require.Equal(t, unknown, f.Unknown)
		require.Zero(t, d.sent+d.lookups)
		require.Equal(t, openState(unknown), d.settled[0].State)
		require.False(t, d.settled[0].Sent)
	}
}

// So many orders are refused that it is an outage: none is settled as refused, none is announced, and what was known of the
// money before still is (hazard H26).
func TestARefusalInAFloodLeavesTheOrderOpen(t *testing.T) {
	for _, refusal := range []error{
		failure.New(failure.Declined, "402"), failure.New(failure.ProviderBadRequest, "400"), failure.New(failure.ProviderRejected, "422"),
		failure.New(failure.KeyReused, "422"), &failure.Error{Reason: failure.ProviderBadAnswer, Err: ErrContradiction, Unknown: true},
	} {
		for _, unsure := range []bool{false, true} {
			claim := freshClaim()
			claim.Unknown = unsure
			f := *failure.Of(refusal)
			d := &desk{claim: claim, answer: &f, call: Call{Sent: true, Status: 1}, flood: true}
			_, err := newTestService(t, d).Charge(t.Context(), testOrder())
			got := failure.Of(err)
			moved := unsure || got.Reason.Money() == failure.MayHaveMoved
			require.Equal(t, []Settlement{{
				State: openState(moved), Unknown: moved, Sent: true, Reason: got.Reason, Attempt: d.settled[0].Attempt,
			}}, d.settled, got.Reason)
			r := failure.Of(refusal).Reason
			if unsure && (r == failure.ProviderBadRequest || r == failure.ProviderRejected) {
				require.Equal(t, failure.RefusedAfterUnknown, got.Reason, "it proves nothing about the earlier request")
				require.True(t, got.Answered, "the provider works")
			} else {
				require.Equal(t, failure.Withheld, got.Verdict, got.Reason)
			}
			require.Equal(t, moved, got.Unknown)
		}
	}
}

// "In progress" is no failure of the order while an earlier request may still be worked on (hazard H22).
func TestInProgressIsNotCountedWhileItMayBe(t *testing.T) {
	for _, c := range []struct {
		name      string
		firstSent time.Time
		uncounted bool
	}{
		{"never sent, as far as we know", time.Time{}, true},
		{"sent a moment ago", testNow.Add(-time.Second), true},
		{"sent as long ago as it may take", testNow.Add(-testProcessing), true},
		{"sent longer ago, and asked for again since", testNow.Add(-testProcessing - time.Second), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := freshClaim()
			claim.FirstSentAt, claim.LastSentAt = c.firstSent, testNow.Add(-time.Second)
			_, err := newTestService(t, &desk{claim: claim, answer: failure.New(failure.ProviderInProgress, "409")}).Charge(t.Context(), testOrder())
			require.Equal(t, c.uncounted, failure.Of(err).Uncounted)
			require.False(t, failure.Of(err).Answered, "nor is it a sign of life")
		})
	}
}

// A look-up that fails is no failure of the order, whatever the provider answered (hazard H21).
func TestALookUpThatProvesNothingIsNotCounted(t *testing.T) {
	for answered, told := range map[failure.Reason]failure.Reason{
		failure.ProviderBadRequest: failure.LookupInconclusive, failure.ProviderRejected: failure.LookupInconclusive,
		failure.ProviderUnauthorized: failure.ProviderUnauthorized, failure.ProviderTimeout: failure.ProviderTimeout, failure.Unclassified: failure.Unclassified,
	} {
		d := &desk{claim: freshClaim(), findErr: failure.New(answered, "x")}
		o := testOrder()
		o.MayBeKnown = true
		_, err := newTestService(t, d).Charge(t.Context(), o)
		f := failure.Of(err)
		require.Equal(t, told, f.Reason)
		require.Contains(t, []failure.Fault{failure.OfMoment, failure.OfSuspect}, f.Fault(failure.Hold))
		require.Equal(t, []any{0, RetryWait, false}, []any{d.sent, d.settled[0].State, f.Unknown}, answered)
	}
	d := &desk{claim: freshClaim(), findErr: failure.New(failure.ShuttingDown, "x")}
	o := testOrder()
	o.MayBeKnown = true
	_, err := newTestService(t, d).Charge(t.Context(), o)
	require.Equal(t, failure.ShuttingDown, failure.Of(err).Reason)
}
