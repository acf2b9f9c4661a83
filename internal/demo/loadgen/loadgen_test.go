package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

func generator(t *testing.T, cfg Config) *Generator {
	t.Helper()
	cfg.Topic = "orders.confirmed"
	g, err := New(cfg)
	require.NoError(t, err)
	return g
}

func TestOneSeedGivesTheSameEvents(t *testing.T) {
	cfg := Config{Seed: 7, Repeats: 0.1, Conflicts: 0.1, Bad: 0.1, Odd: 0.1}
	a, b := generator(t, cfg), generator(t, cfg)
	cfg.Seed = 8
	c := generator(t, cfg)
	differ := 0
	for range 500 {
		e := a.Next()
		require.Equal(t, e, b.Next())
		if string(e.Record.Value) != string(c.Next().Record.Value) {
			differ++
		}
	}
	require.Greater(t, differ, 400, "another seed gives other events")
}

func TestEveryKindIsMade(t *testing.T) {
	g := generator(t, Config{Seed: 1, Repeats: 0.1, Conflicts: 0.1, Bad: 0.3, Odd: 0.3})
	made := map[string]int{}
	for range 1000 {
		made[g.Next().Kind]++
	}
	for _, kind := range badKinds {
		require.NotZero(t, made[kind.name], kind.name)
	}
	for _, kind := range oddKinds {
		require.NotZero(t, made[kind.name], kind.name)
	}
	require.InDelta(t, 100, made["repeat"], 40)
	require.InDelta(t, 100, made["conflict"], 40)
	require.InDelta(t, 200, made["good"], 60)
}

func TestOrdersAreChargedAtMostOnce(t *testing.T) {
	g := generator(t, Config{Seed: 2, Repeats: 0.2, Conflicts: 0.2, Bad: 0.1, Odd: 0.1})
	first := map[string]Event{}
	for range 2000 {
		e := g.Next()
		id := e.OrderID.String()
		switch e.Kind {
		case "repeat":
			require.Equal(t, first[id].Record, e.Record, "byte for byte")
			require.Equal(t, Want{Outcome: Duplicate}, e.Want)
		case "conflict":
			require.Contains(t, first, id)
			require.Equal(t, first[id].Record.Key, e.Record.Key, "behind the first one, in its partition")
			require.NotEqual(t, first[id].Record.Value, e.Record.Value)
			require.Equal(t, "dead:order_conflict", e.Want.String())
		default:
			if e.Want.Outcome == Charged {
				require.NotContains(t, first, id)
				require.Positive(t, e.Want.Amount.Minor)
				require.True(t, json.Valid(e.Record.Value), "%s: %s", e.Kind, e.Record.Value)
				first[id] = e
			}
		}
	}
}

func TestBadKindsHaveKnownReasons(t *testing.T) {
	for _, kind := range badKinds {
		require.Equal(t, failure.ClassInvalid, kind.reason.Class(), kind.name)
		require.Less(t, len(kind.value), 950_000, "%s must fit into a record", kind.name)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no topic":         {},
		"unknown currency": {Topic: "t", Currency: "XYZ"},
		"negative share":   {Topic: "t", Bad: -0.1},
		"more than all":    {Topic: "t", Bad: 0.6, Odd: 0.6},
	} {
		_, err := New(cfg)
		require.Error(t, err, name)
	}
	require.Error(t, generator(t, Config{}).AtRate(t.Context(), &recorder{}, 0, 1, nil))
}

func TestDefaultCurrenciesWithOtherDigits(t *testing.T) {
	for _, currency := range []string{"JPY", "EUR", "KWD"} {
		g := generator(t, Config{Currency: currency})
		for range 200 {
			require.Equal(t, Charged, g.Next().Want.Outcome)
		}
	}
}

// recorder takes records, each call for so long, and refuses those of one call.
type recorder struct {
	takes   time.Duration
	refuses int // number of the call
	calls   []int
}

var errRefused = errors.New("refused")

func (r *recorder) PublishAll(_ context.Context, rs []kafkaclient.Record) []error {
	if r.takes > 0 {
		<-time.After(r.takes)
	}
	r.calls = append(r.calls, len(rs))
	errs := make([]error, len(rs))
	if len(r.calls) == r.refuses {
		for i := range errs {
			errs[i] = errRefused
		}
	}
	return errs
}

func TestBacklogStopsAtTheFirstError(t *testing.T) {
	var tally Tally
	r := &recorder{}
	require.NoError(t, generator(t, Config{Bad: 0.2, Repeats: 0.2}).Backlog(t.Context(), r, 2500, tally.Count))
	require.Equal(t, []int{1000, 1000, 500}, r.calls)
	require.Equal(t, 2500, tally.Total())
	require.NotZero(t, tally.Dead[failure.NotJSON])

	tally, r = Tally{}, &recorder{refuses: 2}
	require.ErrorIs(t, generator(t, Config{}).Backlog(t.Context(), r, 2500, tally.Count), errRefused)
	require.Equal(t, 1000, tally.Charged)
	require.Equal(t, 1000, tally.Unacknowledged)
}

func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tally Tally
		start := time.Now()
		var last time.Time
		sent := func(e Event, at time.Time, err error) {
			tally.Count(e, at, err)
			last = at
		}
		require.NoError(t, generator(t, Config{}).AtRate(t.Context(), &recorder{}, 200, 401, sent))
		require.Equal(t, 401, tally.Charged)
		require.InDelta(t, 2.0, last.Sub(start).Seconds(), 0.01)
	})
}

func TestSlowBrokerIsCaughtUpWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, r := time.Now(), &recorder{takes: 100 * time.Millisecond, refuses: 3}
		var tally Tally
		require.NoError(t, generator(t, Config{}).AtRate(t.Context(), r, 100, 200, tally.Count))
		require.Equal(t, 200, tally.Total()+tally.Unacknowledged)
		require.NotZero(t, tally.Unacknowledged)
		require.Less(t, time.Since(start), 2300*time.Millisecond)
	})
}

func TestRateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var tally Tally
		require.NoError(t, generator(t, Config{}).AtRate(ctx, &recorder{}, 50, 0, tally.Count))
		require.InDelta(t, 50, tally.Charged, 1)
	})
}
