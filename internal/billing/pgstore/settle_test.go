package pgstore

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

func TestSuccessLeavesRowAttemptAndEvent(t *testing.T) {
	woken := make(chan struct{}, 1)
	f := newFixture(t, func(c *Config) { c.EventWritten = func() { woken <- struct{}{} } })
	o := f.order()
	c := f.mustClaim(t, o)
	st := succeeded(c, "ch_1")
	require.True(t, f.mustSettle(t, c, st))

	h := f.history(t, o)
	require.Equal(t, billing.Succeeded, h.State)
	require.Equal(t, "ch_1", h.ProviderChargeID)
	require.NotNil(t, h.FinalizedAt)
	require.Nil(t, h.LeaseUntil)
	require.Len(t, h.Past, 1)
	require.Equal(t, PastAttempt{Generation: 1, Number: 1, Attempt: h.Past[0].Attempt, ProviderChargeID: "ch_1"}, h.Past[0])
	require.Equal(t, 201, h.Past[0].HTTPStatus)
	require.Equal(t, "charge", h.Past[0].Kind)
	require.Empty(t, h.Past[0].Reason)

	require.Equal(t, []billing.Event{*st.Event}, f.events(t, o))
	require.Len(t, woken, 1)
}

func TestRefusalsLeaveAnEventFailuresDoNot(t *testing.T) {
	f := newFixture(t)
	for _, state := range []billing.State{billing.Declined, billing.Rejected} {
		c := f.mustClaim(t, f.order())
		st := refusal(c, state, failure.Declined)
		require.True(t, f.mustSettle(t, c, st))
		require.Equal(t, []billing.Event{*st.Event}, f.events(t, c.Order))
	}
	c := f.mustClaim(t, f.order())
	require.True(t, f.mustSettle(t, c, unknown(failure.Provider5xx)))
	h := f.history(t, c.Order)
	require.Equal(t, failure.Provider5xx, h.Reason)
	require.Equal(t, failure.Provider5xx, h.Past[0].Reason)
	require.Nil(t, h.FinalizedAt)
	require.Empty(t, f.events(t, c.Order))
}

// TestNotSentIsTakenBack: only the claim's own settlement, with proof, restores the instants before it (H2).
func TestNotSentIsTakenBack(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	for range 2 {
		c := f.mustClaim(t, o)
		require.Zero(t, c.FirstSentAt)
		f.mustSettle(t, c, notSent(c))
		h := f.history(t, o)
		require.Equal(t, billing.RetryWait, h.State)
		require.Nil(t, h.FirstSentAt)
		require.Nil(t, h.LastSentAt)
	}
	sent := f.mustClaim(t, o)
	f.mustSettle(t, sent, unknown(failure.ProviderReset))
	again := f.mustClaim(t, o)
	require.Equal(t, sent.Now, again.FirstSentAt)
	f.mustSettle(t, again, notSent(again))
	h := f.history(t, o)
	require.True(t, sent.Now.Equal(*h.FirstSentAt))
	require.True(t, sent.Now.Equal(*h.LastSentAt))
	third := f.mustClaim(t, o)
	f.mustSettle(t, third, unknown(failure.ProviderReset))
	h = f.history(t, o)
	require.True(t, sent.Now.Equal(*h.FirstSentAt), "the first stays")
	require.True(t, third.Now.Equal(*h.LastSentAt))
}

// lose has the order taken over by another claim.
func (f *fixture) lose(t *testing.T, c *billing.Claim) (taker *billing.Claim) {
	t.Helper()
	f.expire(t, c.Order)
	return f.mustClaim(t, c.Order)
}

func TestLateFailureHasNoSay(t *testing.T) {
	f := newFixture(t)
	c := f.mustClaim(t, f.order())
	taker := f.lose(t, c)
	require.False(t, f.mustSettle(t, c, refusal(c, billing.Declined, failure.Declined)))
	require.Empty(t, f.events(t, c.Order))
	require.True(t, f.mustSettle(t, taker, succeeded(taker, "ch_1")))
	h := f.history(t, c.Order)
	require.Equal(t, billing.Succeeded, h.State)
	require.Equal(t, []string{attemptLate, "charge"}, []string{h.Past[0].Kind, h.Past[1].Kind})
}

// TestLateSuccess is stored over every state that is not a success, with the next version of the event.
func TestLateSuccess(t *testing.T) {
	for name, row := range map[string]struct {
		meanwhile func(*billing.Claim) *billing.Settlement
		version   int
	}{
		"in flight elsewhere": {func(*billing.Claim) *billing.Settlement { return nil }, 1},
		"unknown":             {func(*billing.Claim) *billing.Settlement { st := unknown(failure.ProviderTimeout); return &st }, 1},
		"review": {func(*billing.Claim) *billing.Settlement {
			st := settlement(billing.Review, failure.KeyReused)
			return &st
		}, 1},
		"declined": {func(c *billing.Claim) *billing.Settlement {
			st := refusal(c, billing.Declined, failure.Declined)
			return &st
		}, 2},
		"rejected": {func(c *billing.Claim) *billing.Settlement {
			st := refusal(c, billing.Rejected, failure.ProviderRejected)
			return &st
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.mustClaim(t, f.order())
			taker := f.lose(t, c)
			if st := row.meanwhile(taker); st != nil {
				require.True(t, f.mustSettle(t, taker, *st))
			}
			for range 2 { // handed in twice, written once
				require.False(t, f.mustSettle(t, c, succeeded(c, "ch_late")))
			}
			h := f.history(t, c.Order)
			require.Equal(t, billing.Succeeded, h.State)
			require.Equal(t, "ch_late", h.ProviderChargeID)
			events := f.events(t, c.Order)
			require.Len(t, events, row.version)
			require.Equal(t, row.version, events[row.version-1].Version)
			require.Equal(t, "ch_late", events[row.version-1].ProviderChargeID)
			if row.meanwhile(taker) == nil {
				require.False(t, f.mustSettle(t, taker, unknown(failure.ProviderTimeout)), "the other claim finds it charged")
			}
			require.Equal(t, billing.Succeeded, f.history(t, c.Order).State)
		})
	}
}

func TestSecondSuccess(t *testing.T) {
	var logged bytes.Buffer
	f := newFixture(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	c := f.mustClaim(t, f.order())
	taker := f.lose(t, c)
	require.True(t, f.mustSettle(t, taker, succeeded(taker, "ch_1")))

	require.False(t, f.mustSettle(t, c, succeeded(c, "ch_1")))
	require.Zero(t, f.count(t, `SELECT count(*) FROM charge_anomalies`), "the same charge, told twice")
	require.NotContains(t, logged.String(), "level=ERROR")

	third := *c
	third.ID = uuid.New()
	for range 2 {
		require.False(t, f.mustSettle(t, &third, succeeded(&third, "ch_2")))
	}
	require.Equal(t, 1, f.count(t, `SELECT count(*) FROM charge_anomalies WHERE kind = 'second_charge' AND provider_charge_id = 'ch_2'`))
	require.Equal(t, 1, strings.Count(logged.String(), "level=ERROR"))
	require.Equal(t, "ch_1", f.history(t, c.Order).ProviderChargeID, "succeeded is final")
	require.Len(t, f.events(t, c.Order), 1)
}

// TestVanishedRow: a failover has lost the claim's commit; the success must not be lost with it (H3).
func TestVanishedRow(t *testing.T) {
	f := newFixture(t)
	c := f.mustClaim(t, f.order())
	_, err := f.pool.Exec(t.Context(), `DELETE FROM charges`)
	require.NoError(t, err)
	require.False(t, f.mustSettle(t, c, succeeded(c, "ch_1")))
	require.Equal(t, billing.Succeeded, f.mustStand(t, c.Order).State)
	require.Len(t, f.events(t, c.Order), 1)
}

// TestSettledOnce: the answer to a settlement was lost, and it is handed in again.
func TestSettledOnce(t *testing.T) {
	f := newFixture(t)
	for name, end := range map[string]func(*billing.Claim) billing.Settlement{
		"success": func(c *billing.Claim) billing.Settlement { return succeeded(c, "ch_1") },
		"decline": func(c *billing.Claim) billing.Settlement { return refusal(c, billing.Declined, failure.Declined) },
		"unknown": func(*billing.Claim) billing.Settlement { return unknown(failure.ProviderTimeout) },
	} {
		c := f.mustClaim(t, f.order())
		for range 3 {
			require.True(t, f.mustSettle(t, c, end(c)), "%s: it was held when it was written", name)
		}
		h := f.history(t, c.Order)
		require.Len(t, h.Past, 1, name)
		require.LessOrEqual(t, len(f.events(t, c.Order)), 1, name)
	}
}

// TestSuccessThatTheTablesRefuse goes where nothing refuses it, pages, and counts as written (H14). Its neighbours in the
// batch are settled.
func TestSuccessThatTheTablesRefuse(t *testing.T) {
	var logged bytes.Buffer
	f := newFixture(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	for name, chargeID := range map[string]string{"no charge id": "", "NUL": "ch\x00_1", "bad UTF-8": "ch_\xff"} {
		batch := make([]*settleJob, 50)
		for i := range batch {
			c := f.mustClaim(t, f.order())
			id := "ch_" + c.ID.String()
			if i == 20 {
				id = chargeID
			}
			batch[i] = &settleJob{in: settleRequest{c, succeeded(c, id)}}
			batch[i].in.end.Event.ProviderChargeID = "ch"
		}
		f.settleBatch(batch, false)
		for i, j := range batch {
			require.NoError(t, j.err, name)
			require.Equal(t, i != 20, j.out, name)
		}
		bad := batch[20].in.claim.Order
		require.Equal(t, 1, f.count(t, `SELECT count(*) FROM charge_anomalies WHERE kind = 'unwritable_outcome' AND order_id = $1`, bad.ID), name)
		require.Contains(t, logged.String(), bad.ID.String())
		require.NotContains(t, logged.String(), bad.CustomerID.String())
	}
}

// TestOddTextsFromTheProvider are no reason to lose an outcome.
func TestOddTextsFromTheProvider(t *testing.T) {
	f := newFixture(t)
	c := f.mustClaim(t, f.order())
	st := unknown(failure.ProviderBadAnswer)
	st.Attempt.ProviderCode = "a\x00b"
	st.Attempt.ProviderRequestID = "\xff"
	st.Attempt.Detail = strings.Repeat("é", 5000)
	require.True(t, f.mustSettle(t, c, st))
	a := f.history(t, c.Order).Past[0]
	require.Equal(t, "a\uFFFDb", a.ProviderCode)
	require.Equal(t, "\uFFFD", a.ProviderRequestID)
	require.LessOrEqual(t, len(a.Detail), maxText+2)
}

func TestTwoSettlementsOfOneOrderAtOnce(t *testing.T) {
	f := newFixture(t)
	for range 30 {
		c := f.mustClaim(t, f.order())
		taker := f.lose(t, c)
		var wg sync.WaitGroup
		wg.Go(func() { _, err := f.Settle(t.Context(), c, succeeded(c, "ch_1")); require.NoError(t, err) })
		wg.Go(func() { _, err := f.Settle(t.Context(), taker, succeeded(taker, "ch_1")); require.NoError(t, err) })
		wg.Wait()
		require.Equal(t, billing.Succeeded, f.history(t, c.Order).State)
		require.Len(t, f.history(t, c.Order).Past, 2)
		require.Len(t, f.events(t, c.Order), 1)
	}
	require.Zero(t, f.count(t, `SELECT count(*) FROM charge_anomalies`))
}

// events are those in the outbox, oldest first.
func (f *fixture) events(t testing.TB, o billing.Order) (events []billing.Event) {
	t.Helper()
	rows, err := f.pool.Query(t.Context(), `SELECT payload, coalesce(traceparent, '') FROM outbox WHERE order_id = $1 ORDER BY id`, o.ID)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var payload []byte
		var e billing.Event
		require.NoError(t, rows.Scan(&payload, &e.Traceparent))
		require.NoError(t, json.Unmarshal(payload, &e))
		events = append(events, e)
	}
	require.NoError(t, rows.Err())
	return events
}
