package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// keepOthersComing confirms a good order now and then, as other customers do, until stop is called: what fails for one
// order is then no outage. stop returns those orders, all charged.
func (w *world) keepOthersComing() (stop func() []order) {
	w.t.Helper()
	quit, ended := make(chan struct{}), make(chan []order)
	go func() {
		var os []order
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				ended <- os
				return
			case <-tick.C:
				o := w.newOrder()
				os = append(os, o)
				w.kafka.Client.Produce(w.t.Context(), o.record(w.main), nil)
			}
		}
	}()
	return func() []order {
		close(quit)
		os := <-ended
		require.NoError(w.t, w.kafka.Client.Flush(w.t.Context()))
		w.awaitCharged(os...)
		return os
	}
}

// An order fails k times and then succeeds: k retry topics, each in turn, each waited out, one charge. The fourth failure is
// the last.
func TestLadder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	stop := w.keepOthersComing()
	failing := w.newOrders(5) // the index is the number of failures
	for k, o := range failing {
		answers := make([]answer, k)
		for n := range answers {
			answers[n] = refuses(500, "failure_"+strconv.Itoa(n)+strings.Repeat("x", 3000))
		}
		w.provider.script(o, answers...)
	}
	originals := w.produce(failing...)
	for k, o := range failing {
		t.Run(strconv.Itoa(k), func(t *testing.T) {
			w := w.in(t)
			if k < 4 {
				w.awaitCharged(o)
			} else {
				w.awaitOne(w.dlq, o)
			}
			w.climbed(o, originals[k], k)
		})
	}
	others := stop()
	w.chargedOnce(append(others, failing[:4]...)...)
	require.Empty(t, w.provider.chargesOf(failing[4]))
	require.Equal(t, row{State: "unknown", Reason: "provider_5xx", Unknown: true, Attempts: 4, Generation: 1}, w.row(failing[4]))
	require.EqualValues(t, 1, w.settled().Dead)
}

// climbed checks every step of an order with so many failures: headers, due times, keys.
func (w *world) climbed(o order, original *kgo.Record, failures int) {
	w.t.Helper()
	requests := w.provider.requestsOf(o)
	require.Len(w.t, requests, min(failures+1, 4))
	for n := 1; n <= failures; n++ {
		topic := w.dlq
		if n <= 3 {
			topic = w.tiers[n-1]
		}
		records := w.tail.of(topic, o.id.String())
		require.Len(w.t, records, 1, topic)
		r := records[0]
		w.standsFor(r, original)
		require.Equal(w.t, strconv.Itoa(n), header(r, "x-retry-attempt"))
		require.Equal(w.t, "unknown", header(r, "x-error-class"), "money may have moved")
		require.Equal(w.t, header(w.tail.of(w.tiers[0], o.id.String())[0], "x-first-failure-at"), header(r, "x-first-failure-at"))
		if n <= 3 {
			due := w.millis(r, "x-not-before")
			require.False(w.t, due.Before(requests[n-1].at.Add(delays[n-1]).Truncate(time.Millisecond)), "a full delay after the failure")
			require.False(w.t, requests[n].at.Before(due), "never early: %s before %s", requests[n].at, due)
			require.Equal(w.t, requests[0].key, requests[n].key, "one key")
			require.Equal(w.t, requests[0].body, requests[n].body, "one content")
		}
	}
}

// Four failures of which none can have moved money: the dead letter says so. Under the plain table, since an unreachable
// provider holds the line otherwise.
func TestExhausted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("BILLING_FAULT_POLICY=document")
	w.provider.down()
	o := w.newOrder()
	original := w.produce(o)[0]
	letter := w.awaitOne(w.dlq, o)
	w.standsFor(letter, original)
	require.Equal(t, []string{"exhausted", "provider_unreachable", "4"},
		[]string{header(letter, "x-error-class"), header(letter, "x-error-reason"), header(letter, "x-retry-attempt")})
	require.Equal(t, row{State: "retry_wait", Reason: "provider_unreachable", Attempts: 4, Generation: 1}, w.row(o))
	require.EqualValues(t, 1, w.settled().Dead)
}

// A rate limit that asks for longer than a message stays in memory: it waits in a topic, and no attempt is counted (H16).
func TestRateLimitWaitsUncounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	short, long := w.newOrder(), w.newOrder()
	w.provider.script(short, refuses(429, "", "Retry-After", "1"), refuses(429, ""), refuses(429, "", "Retry-After", "nonsense"))
	w.provider.script(long, refuses(429, "", "Retry-After", "7"), refuses(429, "", "Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)))
	original := w.produce(short, long)[1]

	w.awaitCharged(short)
	require.Len(t, w.provider.requestsOf(short), 4)
	w.await(func() bool { return len(w.tail.of(w.tiers[2], long.id.String())) == 2 }, "two waits in the longest tier")
	w.awaitCharged(long)
	for _, r := range w.tail.of(w.tiers[2], long.id.String()) {
		w.standsFor(r, original)
		require.Equal(t, "0", header(r, "x-retry-attempt"))
		require.Equal(t, "provider_rate_limited", header(r, "x-error-reason"))
	}
	require.Zero(t, w.kafka.Count(w.dlq)+w.kafka.Count(w.tiers[0])+w.kafka.Count(w.tiers[1]))
	w.chargedOnce(short, long)
	w.settled()
}
