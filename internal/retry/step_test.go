package retry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

var (
	testLadder = NewLadder("orders.confirmed", "billing-order-confirmed", []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute})
	testNow    = time.UnixMilli(1_800_000_000_000)
)

func TestLadderNames(t *testing.T) {
	require.Equal(t, []string{"orders.confirmed", "orders.confirmed.retry-5s", "orders.confirmed.retry-30s", "orders.confirmed.retry-5m", "orders.confirmed.dlq"}, testLadder.Topics())
	var groups []string
	for _, tier := range testLadder.Tiers() {
		groups = append(groups, tier.Group)
	}
	require.Equal(t, []string{"billing-order-confirmed-retry-5s", "billing-order-confirmed-retry-30s", "billing-order-confirmed-retry-5m"}, groups)
	require.Equal(t, "1h30m250ms", shortDuration(90*time.Minute+250*time.Millisecond))
}

// The whole table of a counted failure: every rank, every count of failures, every Retry-After that makes a difference.
func TestCountedFailure(t *testing.T) {
	tiers := testLadder.Tiers()
	for rank := range 4 {
		for failures := range 4 {
			for _, retryAfter := range []time.Duration{0, 5 * time.Second, 6 * time.Second, 31 * time.Second, time.Hour} {
				t.Run(fmt.Sprintf("rank %d, %d failures, retry after %s", rank, failures, retryAfter), func(t *testing.T) {
					f := &failure.Error{Reason: failure.Provider5xx, RetryAfter: retryAfter}
					step := testLadder.Next(Envelope{Rank: rank, Failures: failures}, f, failure.OfDependency, testNow)
					require.Equal(t, failures+1, step.Failures)
					if failures == 3 {
						require.Equal(t, ToDeadLetters, step.Kind)
						require.Equal(t, "orders.confirmed.dlq", step.Topic)
						return
					}
					want := max(failures+1, rank)
					for want < 3 && tiers[want-1].Delay < retryAfter {
						want++
					}
					require.Equal(t, ToTier, step.Kind)
					require.Equal(t, tiers[want-1].Topic, step.Topic)
					require.Equal(t, testNow.Add(tiers[want-1].Delay), step.NotBefore)
				})
			}
		}
	}
}

func TestFaultDecidesTheWay(t *testing.T) {
	e := Envelope{Failures: 1, Rank: 1}
	for fault, want := range map[failure.Fault]Kind{
		failure.OfMessage:    ToDeadLetters,
		failure.OfDependency: ToTier,
		failure.OfMoment:     InMemory,
		failure.OfSuspect:    InMemory,
		failure.OfSystem:     InMemory,
		failure.OfShutdown:   InMemory,
	} {
		step := testLadder.Next(e, &failure.Error{Reason: failure.ProviderUnauthorized}, fault, testNow)
		require.Equal(t, want, step.Kind, fault)
		if want == InMemory {
			require.Equal(t, 1, step.Failures, "nothing is counted: %s", fault)
			require.Positive(t, step.After)
		}
	}
	refused := testLadder.Next(Envelope{}, &failure.Error{Reason: failure.InvalidAmount}, failure.OfMessage, testNow)
	require.Equal(t, 1, refused.Failures, "a message that was refused at once has 1")
}

func TestRateLimitIsNotAFailure(t *testing.T) { // H16
	limited := func(retryAfter time.Duration) *failure.Error {
		return &failure.Error{Reason: failure.ProviderRateLimited, RetryAfter: retryAfter}
	}
	at := func(since time.Duration) Envelope {
		return Envelope{Failures: 2, Rank: 2, Message: kafkaclient.Message{Since: testNow.Add(-since)}}
	}
	for _, c := range []struct {
		name string
		e    Envelope
		f    *failure.Error
		want Kind
		to   string
	}{
		{"short: in memory", at(0), limited(time.Second), InMemory, ""},
		{"five seconds are used up: a tier, not below its rank", at(4500 * time.Millisecond), limited(time.Second), ToTier, "orders.confirmed.retry-30s"},
		{"long: a tier that outlasts it", at(0), limited(time.Minute), ToTier, "orders.confirmed.retry-5m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			step := testLadder.Next(c.e, c.f, failure.OfMoment, testNow)
			require.Equal(t, c.want, step.Kind)
			require.Equal(t, c.to, step.Topic)
			require.Equal(t, 2, step.Failures, "uncounted")
		})
	}
	for waits, topic := range map[int]string{0: "retry-5s", waitsPerTier: "retry-30s", 2 * waitsPerTier: "retry-5m", maxWaits: "retry-5m"} {
		e := Envelope{Waits: waits, Message: kafkaclient.Message{Since: testNow.Add(-time.Minute)}}
		step := testLadder.Next(e, limited(0), failure.OfMoment, testNow)
		require.Equal(t, Step{Kind: ToTier, Topic: "orders.confirmed." + topic, Waits: min(waits+1, maxWaits), NotBefore: step.NotBefore}, step, "never counted, and asked for less often with time (H21)")
	}
	busy := testLadder.Next(at(time.Hour), &failure.Error{Reason: failure.OrderBusy}, failure.OfMoment, testNow)
	require.Equal(t, InMemory, busy.Kind, "a lease ends by itself")
	suspect := testLadder.Next(at(time.Hour), &failure.Error{Reason: failure.ProviderUnauthorized}, failure.OfSuspect, testNow)
	require.Equal(t, InMemory, suspect.Kind, "others tell within seconds whose fault it is")
}
