package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fate is what becomes of a message whose first request is answered in some way.
type fate struct {
	way    string // charged, tier 1, tier 2, dead, held
	reason string
	class  string
	state  string // of the order's row meanwhile
}

var (
	charged = fate{way: "charged", state: "succeeded"}
	waits   = fate{way: "charged later", state: "succeeded"} // in memory, uncounted: 409 and 429
)

func held(reason string) fate { return fate{way: "held", reason: reason} }

func dead(class, reason, state string) fate {
	return fate{way: "dead", reason: reason, class: class, state: state}
}

// tier: after a failure that may have moved money the order is unknown, and nothing else will ever make it a failure.
func tier(rank string, reason string) fate {
	return fate{way: "tier " + rank, reason: reason, class: "unknown", state: "unknown"}
}

type answerCase struct {
	name           string
	answer         answer
	hold, document fate // what the policies make of it
}

// classification is the table of provider-facing failures: every status of the contract, and every way in which an
// exchange can break.
func classification() []answerCase {
	same := func(name string, a answer, f fate) answerCase { return answerCase{name, a, f, f} }
	status := func(code int, hold, document fate) answerCase {
		return answerCase{strconv.Itoa(code), refuses(code, "", "Location", "/elsewhere"), hold, document}
	}
	unauthorized, misaddressed := "provider_unauthorized", "provider_misaddressed"
	return []answerCase{
		// Those that hold the line come first: nothing else may be under way then.
		status(401, held(unauthorized), dead("rejected", unauthorized, "retry_wait")),
		status(403, held(unauthorized), dead("rejected", unauthorized, "retry_wait")),
		status(404, held(misaddressed), dead("rejected", misaddressed, "retry_wait")),
		status(405, held(misaddressed), dead("rejected", misaddressed, "retry_wait")),
		status(410, held(misaddressed), dead("rejected", misaddressed, "retry_wait")),
		status(301, held(misaddressed), dead("rejected", misaddressed, "retry_wait")),
		status(302, held(misaddressed), dead("rejected", misaddressed, "retry_wait")),
		status(307, held(misaddressed), dead("rejected", misaddressed, "retry_wait")),

		same("201", moneyMoves, charged),
		same("201 within the timeout, after the last instant to send", late(2300*time.Millisecond, moneyMoves), charged),
		same("200 of an earlier charge", moneyMovesThen(moneyMoves), charged),
		same("400", refuses(400, "bad"), dead("rejected", "provider_bad_request", "rejected")),
		same("413", refuses(413, "too_large"), dead("rejected", "provider_bad_request", "rejected")),
		same("415", refuses(415, "media_type"), dead("rejected", "provider_bad_request", "rejected")),
		same("422", refuses(422, "amount_not_supported"), dead("rejected", "provider_rejected", "rejected")),
		same("422 of a reused key", refuses(422, "idempotency_key_reused"), dead("conflict", "key_reused", "review")),
		same("402", refuses(402, "card_declined"), dead("declined", "declined", "declined")),
		status(408, tier("1", "provider_try_again"), dead("unknown", "provider_try_again", "unknown")),
		status(425, tier("1", "provider_try_again"), dead("unknown", "provider_try_again", "unknown")),
		status(409, waits, dead("unknown", "provider_in_progress", "unknown")),
		{"429", refuses(429, "", "Retry-After", "1"), waits, dead("exhausted", "provider_rate_limited", "retry_wait")},

		same("500", refuses(500, ""), tier("1", "provider_5xx")),
		same("500 after the money moved", moneyMovesThen(refuses(500, "")), tier("1", "provider_5xx")),
		same("502 of a proxy", says(502, "<html>bad gateway</html>"), tier("1", "provider_5xx")),
		same("503 with Retry-After", refuses(503, "", "Retry-After", "5"), tier("2", "provider_5xx")),
		same("504", refuses(504, ""), tier("1", "provider_5xx")),
		same("no answer in time", hangs, tier("1", "provider_timeout")),
		same("no answer in time after the money moved", moneyMovesThen(hangs), tier("1", "provider_timeout")),
		same("reset", breaksOff, tier("1", "provider_reset")),
		same("reset after the money moved", moneyMovesThen(breaksOff), tier("1", "provider_reset")),
		same("broken off inside the body", moneyMovesThen(breaksOffInside), tier("1", "provider_bad_answer")),
		same("2xx that is not JSON", says(200, "OK"), tier("1", "provider_bad_answer")),
		same("2xx without a body", says(201, ""), tier("1", "provider_bad_answer")),
		same("202", says(202, `{"status":"pending"}`), tier("1", "provider_bad_answer")),
		same("204", func(x *exchange) { x.w.WriteHeader(204) }, tier("1", "provider_bad_answer")),
		same("2xx too long to read", says(201, strings.Repeat(" ", 70<<10)), tier("1", "provider_bad_answer")),
		same("2xx that is pending", claims(func(c *charge) { c.Status = "pending" }), tier("1", "provider_bad_answer")),
		same("2xx of another amount", claims(func(c *charge) { c.Amount = "149.91" }), dead("unknown", "provider_bad_answer", "review")),
		same("2xx of another order", claims(func(c *charge) { c.Reference = "0190f5a2-7c1e-7b3a-8f00-0000000000a1" }), dead("unknown", "provider_bad_answer", "review")),
	}
}

func TestClassification(t *testing.T) {
	for _, policy := range []string{"hold", "document"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "BILLING_RETRY_DELAYS=4s,6s,8s") // long enough to look at an order that waits
			i := w.start("BILLING_FAULT_POLICY=" + policy)
			var paid []order
			for _, c := range classification() {
				want := c.hold
				if policy == "document" {
					want = c.document
				}
				t.Run(c.name, func(t *testing.T) {
					w := w.in(t)
					i := *i
					i.w = w
					o := w.newOrder()
					w.meets(&i, o, c.answer, want)
					if want.way != "dead" {
						paid = append(paid, o)
					}
					if want.way != "held" { // an order that fares well, so that the failures are no outage
						other := w.newOrder()
						w.produce(other)
						w.awaitCharged(other)
						paid = append(paid, other)
					}
				})
			}
			w.awaitCharged(paid...)
			w.chargedOnce(paid...)
			w.settled()
			for _, o := range paid {
				require.Len(t, w.resultsOf(o), 1)
				require.Equal(t, "billing.charge.succeeded.v1", w.resultsOf(o)[0].EventType)
			}
		})
	}
}

// meets produces the order, lets its first request be answered so, and checks its fate.
func (w *world) meets(i *instance, o order, a answer, want fate) {
	w.t.Helper()
	if want.way == "held" {
		w.isHeld(i, o, a, want)
		return
	}
	w.provider.script(o, a)
	original := w.produce(o)[0]
	switch want.way {
	case "charged":
		w.awaitCharged(o)
		require.Len(w.t, w.provider.requestsOf(o), 1)
		require.Empty(w.t, w.row(o).Reason)
	case "charged later":
		w.awaitCharged(o)
		require.Len(w.t, w.provider.requestsOf(o), 2)
		require.Empty(w.t, w.tail.of(w.tiers[0], o.id.String()), "waited in a retry topic")
	case "tier 1":
		w.failedOnce(w.awaitOne(w.tiers[0], o), original, o, want)
		w.due(w.awaitOne(w.tiers[0], o), 4*time.Second)
	case "tier 2":
		w.failedOnce(w.awaitOne(w.tiers[1], o), original, o, want)
		w.due(w.awaitOne(w.tiers[1], o), 6*time.Second)
	case "dead":
		w.failedOnce(w.awaitOne(w.dlq, o), original, o, want)
		require.Len(w.t, w.provider.requestsOf(o), 1)
		require.Empty(w.t, header(w.awaitOne(w.dlq, o), "x-not-before"))
		w.tells(o, want)
	}
}

// failedOnce checks the record and the row of an order after its first failure.
func (w *world) failedOnce(r, original *kgo.Record, o order, want fate) {
	w.t.Helper()
	w.standsFor(r, original)
	require.Equal(w.t, "1", header(r, "x-retry-attempt"))
	require.Equal(w.t, want.reason, header(r, "x-error-reason"))
	require.Equal(w.t, want.class, header(r, "x-error-class"))
	got := w.row(o)
	require.Equal(w.t, want.state, got.State)
	require.Equal(w.t, want.reason, got.Reason)
}

// due checks when the record may be handled: after the tier's delay, from some time in the last seconds on.
func (w *world) due(r *kgo.Record, delay time.Duration) {
	w.t.Helper()
	require.WithinDuration(w.t, w.millis(r, "x-first-failure-at").Add(delay), w.millis(r, "x-not-before"), time.Second)
}

// tells checks the result event of an order that is refused for good. An unknown outcome is never called a failure.
func (w *world) tells(o order, want fate) {
	w.t.Helper()
	if want.state != "declined" && want.state != "rejected" {
		require.Empty(w.t, w.resultsOf(o))
		return
	}
	w.await(func() bool { return len(w.resultsOf(o)) == 1 }, "result event of order %s", o.id)
	e := w.resultsOf(o)[0]
	require.Equal(w.t, "billing.charge.failed.v1", e.EventType)
	require.Equal(w.t, []string{want.state, want.reason, ""}, []string{e.Kind, e.Reason, e.ProviderChargeID})
}

// isHeld checks that the line is held while the order gets this answer, with nothing counted and nothing moved, and that
// the order is charged once it is cured.
func (w *world) isHeld(i *instance, o order, a answer, want fate) {
	w.t.Helper()
	w.provider.stick(o, a)
	w.produce(o)
	i.awaitHeld(want.reason)
	require.InDelta(w.t, 1, i.metric("billing_hold", want.reason), 0)
	w.nowhere()
	w.provider.cure(o)
	w.awaitCharged(o)
	i.awaitReady()
	require.Zero(w.t, i.metric("billing_hold", want.reason))
	w.nowhere()
}
