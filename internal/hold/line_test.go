package hold

import (
	"fmt"
	"log/slog"
	"slices"
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
	return l.Judge(Attempt{Record: order, Order: order, Began: l.cfg.Clock()}, failure.New(r, "test"))
}

// charge judges a success that the provider answered at once.
func charge(l *Line, order string) {
	l.Judge(Attempt{Record: order, Order: order, Began: l.cfg.Clock(), Answered: true}, nil)
}

func held(l *Line) failure.Reason {
	r, _ := l.Held()
	return r
}

func TestSuspects(t *testing.T) { // H10, H34
	t.Run("one order alone is a suspicion, five with the same fault hold the line", func(t *testing.T) {
		l, _ := newTestLine(t, failure.Hold)
		for _, order := range []string{"a", "b", "c", "d", "a", "a"} {
			require.Equal(t, failure.OfSuspect, fail(l, order, failure.ProviderUnauthorized))
			require.Empty(t, held(l))
		}
		require.Equal(t, failure.OfSystem, fail(l, "e", failure.ProviderUnauthorized))
		require.Equal(t, failure.ProviderUnauthorized, held(l))
	})
	t.Run("the same order again for seconds, when there is no other", func(t *testing.T) {
		l, now := newTestLine(t, failure.Hold)
		fail(l, "a", failure.ProviderMisaddressed)
		*now = now.Add(5 * time.Second)
		require.Equal(t, failure.OfSystem, fail(l, "a", failure.ProviderMisaddressed))
	})
	t.Run("others fare better again and again: it counts against the order, and leads to the next tier", func(t *testing.T) {
		l, now := newTestLine(t, failure.Hold)
		for range outlivedToCount {
			require.Equal(t, failure.OfSuspect, fail(l, "a", failure.ProviderUnauthorized))
			*now = now.Add(time.Second)
			charge(l, "b")
		}
		require.Equal(t, failure.OfDependency, fail(l, "a", failure.ProviderUnauthorized))
		require.Empty(t, held(l))
		require.Equal(t, failure.OfSuspect, fail(l, "a", failure.ProviderUnauthorized), "and it begins anew")
	})
	t.Run("an error that nobody knows holds the line like any other", func(t *testing.T) { // H21
		l, _ := newTestLine(t, failure.Hold)
		for i := range 5 {
			fail(l, fmt.Sprint(i), failure.Unclassified)
		}
		require.Equal(t, failure.Unclassified, held(l))
	})
}

// An order probes in one outage, and meets the next one before it was charged (torture, seed 21029).
func TestAnOrderThatMeetsTwoOutagesIsNoCulprit(t *testing.T) {
	for name, second := range map[string]failure.Reason{"of another kind": failure.ProviderUnauthorized, "of the same kind": failure.ProviderMisaddressed} {
		t.Run(name, func(t *testing.T) {
			l, now := newTestLine(t, failure.Hold)
			tick := func() { *now = now.Add(10 * time.Millisecond) }
			for _, order := range []string{"a", "b", "c", "d", "e"} {
				fail(l, order, failure.ProviderMisaddressed)
				tick()
			}
			require.Equal(t, failure.OfSystem, fail(l, "probe", failure.ProviderMisaddressed))
			tick()
			charge(l, "f")
			require.Empty(t, held(l))
			for range 4 {
				tick()
				require.Equal(t, failure.OfSuspect, fail(l, "probe", second))
			}
			for _, order := range []string{"g", "h", "i", "j"} {
				fail(l, order, second)
			}
			require.Equal(t, second, held(l))
			require.Equal(t, failure.OfSystem, fail(l, "a", second), "a suspect of the first one, while the second lasts")
		})
	}
}

// A refusal of one kind says nothing about an earlier one of another kind.
func TestASuspicionIsOfOneKind(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	for range 2 * outlivedToCount {
		for _, r := range []failure.Reason{failure.ProviderMisaddressed, failure.ProviderUnauthorized} {
			require.Equal(t, failure.OfSuspect, fail(l, "a", r))
			*now = now.Add(time.Second)
			charge(l, "b")
		}
	}
}

// An outage begins while requests are under way: their success says nothing about it (torture, seed 1032).
func TestASuccessThatBeganBeforeProvesNothing(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	before := *now
	*now = now.Add(10 * time.Millisecond)
	for range outlivedToCount + 1 {
		*now = now.Add(10 * time.Millisecond)
		require.Equal(t, failure.OfSuspect, fail(l, "a", failure.ProviderMisaddressed), "not the order's own fault")
		l.Judge(Attempt{Order: "b", Began: before, Answered: true}, nil)
	}
	*now = now.Add(5 * time.Second)
	fail(l, "a", failure.ProviderMisaddressed)
	fail(l, "a", failure.ProviderMisaddressed)
	*now = now.Add(5 * time.Second)
	fail(l, "a", failure.ProviderMisaddressed)
	require.Equal(t, failure.ProviderMisaddressed, held(l))
	l.Judge(Attempt{Order: "c", Began: before, Answered: true}, nil)
	require.Equal(t, failure.ProviderMisaddressed, held(l), "nor is the outage over")
}

// holdFor lets five orders fail for the reason.
func holdFor(t *testing.T, l *Line, r failure.Reason) {
	t.Helper()
	for i := range 5 {
		fail(l, fmt.Sprint("held", i), r)
	}
	require.Equal(t, r.Outage(), held(l))
}

// What ends a hold, for each reason that can hold the line.
func TestCures(t *testing.T) {
	proofs := map[string]func(l *Line){
		"a duplicate":           func(l *Line) { l.Judge(Attempt{Order: "x", Began: l.cfg.Clock()}, nil) },
		"an undecodable record": func(l *Line) { fail(l, "", failure.NotJSON) },
		"a publication":         func(l *Line) { l.Published("x", "") },
		"a charge":              func(l *Line) { charge(l, "x") },
		"a decline": func(l *Line) {
			l.Judge(Attempt{Order: "x", Began: l.cfg.Clock(), Answered: true}, failure.New(failure.Declined, "test"))
		},
		"in progress (H22)":        func(l *Line) { fail(l, "x", failure.ProviderInProgress) },
		"a shutdown":               func(l *Line) { fail(l, "x", failure.ShuttingDown) },
		"a rate limit":             func(l *Line) { fail(l, "x", failure.ProviderRateLimited) },
		"another instance's order": func(l *Line) { fail(l, "x", failure.OrderBusy) },
	}
	ends := map[failure.Cure][]string{
		failure.ByAnswer:      {"a charge", "a decline"},
		failure.ByFate:        {"a duplicate", "a publication", "a charge"},
		failure.ByPublication: {"a publication"},
	}
	for _, r := range failure.Outages() {
		if r.Cure() == failure.ByPerson {
			continue
		}
		for name, proof := range proofs {
			t.Run(string(r)+", "+name, func(t *testing.T) {
				l, now := newTestLine(t, failure.Hold)
				if r == failure.ProviderRateLimited {
					fail(l, "a", r)
					*now = now.Add(5 * time.Second)
				}
				holdFor(t, l, r)
				*now = now.Add(time.Second)
				proof(l)
				require.Equal(t, slices.Contains(ends[r.Cure()], name), held(l) == "")
			})
		}
	}
}

// A burst beyond the limit ends in a run of refusals; only when nothing else comes the line is held.
func TestARateLimitForEveryoneHoldsTheLine(t *testing.T) { // H21
	l, now := newTestLine(t, failure.Hold)
	for i := range 300 {
		require.Equal(t, failure.OfMoment, fail(l, fmt.Sprint(i), failure.ProviderRateLimited))
	}
	*now = now.Add(4 * time.Second)
	charge(l, "good")
	*now = now.Add(4 * time.Second)
	require.Equal(t, failure.OfMoment, fail(l, "a", failure.ProviderRateLimited))
	*now = now.Add(5 * time.Second)
	require.Equal(t, failure.OfSystem, fail(l, "b", failure.ProviderRateLimited))
	require.Equal(t, failure.ProviderRateLimited, held(l))
}

// Nothing is counted while the provider holds the line, whatever a probe meets; the line is then held for that.
func TestAProbeThatMeetsAnotherOutage(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	holdFor(t, l, failure.ProviderUnauthorized)
	require.Equal(t, failure.OfSystem, fail(l, "x", failure.Provider5xx))
	require.Equal(t, failure.ProviderDown, held(l))
}

// The broker was down, and works again: an order that fails finds it out, since its record is published.
func TestAFailureProbesTheBroker(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	holdFor(t, l, failure.BrokerDown)
	require.Equal(t, failure.OfDependency, fail(l, "x", failure.Provider5xx))
	l.Published("", "")
	require.Empty(t, held(l))
}

// A look-up that fails counts against nobody, also when others fare better.
func TestALookUpIsNeverCounted(t *testing.T) {
	for _, r := range []failure.Reason{failure.ProviderUnauthorized, failure.Provider5xx, failure.ProviderUnreachable} {
		l, now := newTestLine(t, failure.Hold)
		for range 50 {
			f := failure.New(r, "look-up")
			f.Uncounted = true
			require.Contains(t, []failure.Fault{failure.OfSuspect, failure.OfMoment}, l.Judge(Attempt{Order: "a", Began: *now}, f))
			*now = now.Add(time.Second)
			charge(l, "b")
		}
	}
}

func TestDocumentPolicyHoldsOnlyForOurOwn(t *testing.T) {
	l, _ := newTestLine(t, failure.Document)
	for i := range 50 {
		require.Equal(t, failure.OfDependency, fail(l, fmt.Sprint(i), failure.Provider5xx))
		require.Equal(t, failure.OfMoment, fail(l, fmt.Sprint(i), failure.LookupInconclusive))
		require.Equal(t, failure.OfMessage, fail(l, fmt.Sprint(i), failure.ProviderUnauthorized))
	}
	require.Empty(t, held(l))
	require.Equal(t, failure.OfSystem, fail(l, "a", failure.BrokerDown))
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
			require.Equal(t, failure.OfSystem, l.Judge(Attempt{Order: fmt.Sprint(i), Began: before}, failure.New(r, "test")), r)
		}
		require.Empty(t, held(l), "and hold nobody again")
		require.NotEqual(t, failure.OfSystem, fail(l, "c", failure.ProviderTimeout), "what begins now counts")
		require.Equal(t, failure.OfMessage, l.Judge(Attempt{Order: "d", Began: before, Answered: true}, failure.New(failure.Declined, "test")), "an answer is one")
	}
}

// A restart in an outage must not begin to count anew (torture, seed 60005).
func TestAHoldOutlivesARestart(t *testing.T) {
	for _, r := range failure.Outages() {
		l, now := newTestLine(t, failure.Hold)
		l.Inherit(r)
		if cure := r.Cure(); cure == failure.ByPerson || cure == failure.ByPublication {
			require.Empty(t, held(l), "%s is found by itself, or read elsewhere", r)
			continue
		}
		require.Equal(t, r, held(l))
		require.Equal(t, failure.OfSystem, fail(l, "a", r))
		*now = now.Add(time.Second)
		charge(l, "b")
		require.Empty(t, held(l))
	}
	l, _ := newTestLine(t, failure.Document)
	l.Inherit(failure.ProviderDown)
	require.Empty(t, held(l), "the design document's plain table holds for no provider")
}

// The provider refuses the only order there is, whose earlier request may have been charged. It works, and nobody but that
// order is concerned (torture, seed 70037).
func TestARefusalAfterAnUnknownOutcomeHoldsNobody(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	for range 4 {
		*now = now.Add(10 * time.Second)
		require.Equal(t, failure.OfDependency, fail(l, "x", failure.RefusedAfterUnknown))
		require.Empty(t, held(l))
	}
}
