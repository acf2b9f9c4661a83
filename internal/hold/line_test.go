package hold

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// newTestLine has a clock that stands still until it is moved.
func newTestLine(t *testing.T, policy failure.Policy) (*Line, *time.Time) {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	return NewLine(Config{
		Policy: policy, BreakerRun: 5, BreakerPair: 5 * time.Second, ProbeMin: time.Millisecond, ProbeMax: 5 * time.Millisecond,
		Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}), &now
}

// fail judges a failure of the order for the reason.
func fail(l *Line, order string, r failure.Reason) failure.Fault {
	return l.Judge(order, failure.New(r, "test"), l.cfg.Clock(), false)
}

// charge judges a success that the provider answered at once.
func charge(l *Line, order string) { l.Judge(order, nil, l.cfg.Clock(), true) }

func held(l *Line) failure.Reason {
	r, _ := l.Held()
	return r
}

func TestFirstSuspect(t *testing.T) { // H10
	t.Run("a second order with the same fault holds the line", func(t *testing.T) {
		l, _ := newTestLine(t, failure.Hold)
		require.Equal(t, failure.OfMoment, fail(l, "a", failure.ProviderUnauthorized))
		require.Empty(t, held(l))
		require.Equal(t, failure.OfSystem, fail(l, "b", failure.ProviderUnauthorized))
		require.Equal(t, failure.ProviderUnauthorized, held(l))
	})
	t.Run("the same order again, when there is no other", func(t *testing.T) {
		l, _ := newTestLine(t, failure.Hold)
		fail(l, "a", failure.ProviderMisaddressed)
		require.Equal(t, failure.OfSystem, fail(l, "a", failure.ProviderMisaddressed))
	})
	t.Run("another order succeeds: it is the message's own", func(t *testing.T) {
		l, now := newTestLine(t, failure.Hold)
		fail(l, "a", failure.ProviderUnauthorized)
		*now = now.Add(time.Second)
		charge(l, "b")
		require.Equal(t, failure.OfMessage, fail(l, "a", failure.ProviderUnauthorized))
		require.Empty(t, held(l))
	})
	t.Run("held, another order probes and succeeds, the first is the message's own", func(t *testing.T) {
		l, now := newTestLine(t, failure.Hold)
		fail(l, "a", failure.ProviderUnauthorized)
		fail(l, "a", failure.ProviderUnauthorized)
		require.NotEmpty(t, held(l))
		*now = now.Add(time.Second)
		charge(l, "b")
		require.Empty(t, held(l))
		require.Equal(t, failure.OfMessage, fail(l, "a", failure.ProviderUnauthorized))
	})
}

// An order probes in one outage, and meets the next one before it was charged (torture, seed 21029).
func TestAnOrderThatMeetsTwoOutagesIsNoCulprit(t *testing.T) {
	for name, second := range map[string]failure.Reason{"of another kind": failure.ProviderUnauthorized, "of the same kind": failure.ProviderMisaddressed} {
		t.Run(name, func(t *testing.T) {
			l, now := newTestLine(t, failure.Hold)
			tick := func() { *now = now.Add(10 * time.Millisecond) }
			fail(l, "a", failure.ProviderMisaddressed)
			tick()
			fail(l, "b", failure.ProviderMisaddressed)
			tick()
			require.Equal(t, failure.OfSystem, fail(l, "probe", failure.ProviderMisaddressed))
			tick()
			charge(l, "c")
			require.Empty(t, held(l))
			tick()
			require.NotEqual(t, failure.OfMessage, fail(l, "probe", second), "the first to meet it")
			tick()
			fail(l, "d", second)
			require.Equal(t, second, held(l))
			require.Equal(t, failure.OfSystem, fail(l, "a", second), "a suspect of the first one, while the second lasts")
		})
	}
}

// A refusal of one kind says nothing about an earlier one of another kind.
func TestASuspicionIsOfOneKind(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	fail(l, "a", failure.ProviderMisaddressed)
	*now = now.Add(time.Second)
	charge(l, "b")
	require.Equal(t, failure.OfMoment, fail(l, "a", failure.ProviderUnauthorized))
	*now = now.Add(time.Second)
	charge(l, "c")
	require.Equal(t, failure.OfMessage, fail(l, "a", failure.ProviderUnauthorized))
}

// An outage begins while requests are under way: their success says nothing about it (torture, seed 1032).
func TestASuccessThatBeganBeforeProvesNothing(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	before := *now
	*now = now.Add(10 * time.Millisecond)
	require.Equal(t, failure.OfMoment, fail(l, "a", failure.ProviderMisaddressed))
	*now = now.Add(10 * time.Millisecond)
	l.Judge("b", nil, before, true)
	require.Equal(t, failure.OfSystem, fail(l, "a", failure.ProviderMisaddressed), "not the order's own fault")
	*now = now.Add(10 * time.Millisecond)
	l.Judge("c", nil, before, true)
	require.Equal(t, failure.ProviderMisaddressed, held(l), "nor is the outage over")
}

func TestOnlyAProviderAnswerEndsAProviderHold(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	fail(l, "a", failure.ProviderUnauthorized)
	fail(l, "b", failure.ProviderUnauthorized)
	l.Judge("duplicate", nil, l.cfg.Clock(), false)
	fail(l, "", failure.NotJSON)
	l.Published()
	require.NotEmpty(t, held(l), "neither asked the provider")
	l.Judge("c", failure.New(failure.Declined, "test"), l.cfg.Clock(), true)
	require.Empty(t, held(l), "a decline is an answer")
}

func TestDatabaseHoldEndsWithAnyMessageThatGetsThrough(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	require.Equal(t, failure.OfSystem, fail(l, "a", failure.DatabaseDown))
	require.Equal(t, failure.DatabaseDown, held(l))
	fail(l, "a", failure.ShuttingDown)
	require.NotEmpty(t, held(l), "a shutdown proves nothing")
	l.Judge("duplicate", nil, l.cfg.Clock(), false)
	require.Empty(t, held(l))
}

// A failure that still has to be published proves nothing about the broker; its publication does.
func TestBrokerHoldEndsWithAPublication(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	fail(l, "a", failure.BrokerDown)
	fail(l, "a", failure.Declined)
	require.Equal(t, failure.BrokerDown, held(l))
	l.Published()
	require.Empty(t, held(l))
}

func TestDocumentPolicyHoldsOnlyForOurOwn(t *testing.T) {
	l, _ := newTestLine(t, failure.Document)
	for i := range 50 {
		require.Equal(t, failure.OfDependency, fail(l, fmt.Sprint(i), failure.Provider5xx))
		require.Equal(t, failure.OfMessage, fail(l, fmt.Sprint(i), failure.ProviderUnauthorized))
	}
	require.Empty(t, held(l))
	require.Equal(t, failure.OfSystem, fail(l, "a", failure.BrokerDown))
}

func TestFloodOfDeadLettersHoldsTheLine(t *testing.T) {
	flooded := func(policy failure.Policy) (*Line, *time.Time) {
		l, now := newTestLine(t, policy)
		return NewLine(Config{Policy: policy, BreakerRun: 5, BreakerPair: time.Second, ProbeMin: time.Hour, ProbeMax: time.Hour, FloodCount: 10, FloodRatio: 0.5, Clock: l.cfg.Clock, Log: l.cfg.Log}), now
	}
	t.Run("a run of them", func(t *testing.T) {
		l, _ := flooded(failure.Hold)
		for i := range 9 {
			require.Equal(t, failure.OfMessage, fail(l, fmt.Sprint(i), failure.ProviderBadRequest))
		}
		require.Equal(t, failure.OfSystem, fail(l, "tenth", failure.ProviderBadRequest))
		require.Equal(t, failure.DeadLetterFlood, held(l))
		require.Equal(t, failure.OfSystem, fail(l, "probe", failure.Declined), "a probe that would die stays")
		l.Published()
		require.NotEmpty(t, held(l), "a message in a tier proves nothing")
		charge(l, "good")
		require.Empty(t, held(l))
		require.Equal(t, failure.OfMessage, fail(l, "later", failure.ProviderBadRequest), "the count begins anew")
	})
	t.Run("among as many good ones it is no flood", func(t *testing.T) {
		l, _ := flooded(failure.Hold)
		for i := range 100 {
			charge(l, "good")
			charge(l, "good too")
			require.Equal(t, failure.OfMessage, fail(l, fmt.Sprint(i), failure.NotJSON))
		}
	})
	t.Run("slow ones are for the alert", func(t *testing.T) {
		l, now := flooded(failure.Hold)
		for i := range 100 {
			*now = now.Add(7 * time.Second)
			require.Equal(t, failure.OfMessage, fail(l, fmt.Sprint(i), failure.NotJSON))
		}
	})
	t.Run("not under the document's policy", func(t *testing.T) {
		l, _ := flooded(failure.Document)
		for i := range 100 {
			require.Equal(t, failure.OfMessage, fail(l, fmt.Sprint(i), failure.NotJSON))
		}
	})
}

// A provider hangs, and is cured while requests of before still hang: their timeouts belong to the outage.
func TestWhatBeganBeforeTheCureIsNotCounted(t *testing.T) {
	for _, r := range []failure.Reason{failure.ProviderTimeout, failure.ProviderUnauthorized, failure.DatabaseDown, failure.DatabaseBusy} {
		l, now := newTestLine(t, failure.Hold)
		before := *now
		fail(l, "a", failure.DatabaseDown)
		*now = now.Add(time.Second)
		charge(l, "b")
		for i := range 20 {
			require.Equal(t, failure.OfSystem, l.Judge(fmt.Sprint(i), failure.New(r, "test"), before, false), r)
		}
		require.Empty(t, held(l), "and hold nobody again")
		require.NotEqual(t, failure.OfSystem, fail(l, "c", failure.ProviderTimeout), "what begins now counts")
		require.Equal(t, failure.OfMessage, l.Judge("d", failure.New(failure.Declined, "test"), before, true), "an answer is one")
	}
}
