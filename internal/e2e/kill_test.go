package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// killPoint is a step at which the process dies.
type killPoint struct {
	name     string
	stand    func(w *world, o order) (cut func()) // produces the order and waits until the process stands at the step
	blocked  string                               // the statement that waits then; "" when none does
	state    string                               // of the row at the kill; "" when there is none
	requests int                                  // in the end
	retried  int                                  // records in the first retry topic in the end
}

// killPoints are the steps of an order's way. The locks make them exact: the process stands still when it is killed.
func killPoints() []killPoint {
	return []killPoint{
		{name: "before the claim", stand: func(w *world, o order) func() {
			cut := w.block("charges")
			w.produce(o)
			w.awaitBlocked("INSERT INTO charges")
			return cut
		}, blocked: "INSERT INTO charges", requests: 1},

		{name: "after the claim, before the provider charges", stand: func(w *world, o order) func() {
			w.provider.script(o, hangs)
			w.produce(o)
			w.awaitRequest(o)
			return func() {}
		}, state: "in_flight", requests: 2},

		{name: "after the provider answered", stand: func(w *world, o order) func() {
			locked := make(chan struct{})
			w.provider.script(o, after(locked, moneyMoves))
			w.produce(o)
			w.awaitRequest(o)
			cut := w.block("charges")
			close(locked)
			w.awaitBlocked("UPDATE charges")
			return cut
		}, blocked: "UPDATE charges", state: "in_flight", requests: 2},

		{name: "before the retry publish", stand: func(w *world, o order) func() {
			w.provider.script(o, moneyMovesThen(refuses(500, "")))
			cut := w.block("record_fates")
			w.produce(o)
			w.awaitBlocked("INSERT INTO record_fates")
			return cut
		}, blocked: "INSERT INTO record_fates", state: "unknown", requests: 2},

		{name: "after the retry publish, before the offset commit", stand: func(w *world, o order) func() {
			w.provider.script(o, moneyMovesThen(refuses(500, "")))
			cut := w.block("intake")
			w.produce(o)
			w.awaitOne(w.tiers[0], o)
			return cut
		}, state: "unknown", requests: 2, retried: 1},

		{name: "after the charge, before the offset commit", stand: func(w *world, o order) func() {
			cut := w.block("intake")
			w.produce(o)
			w.awaitState(o, "succeeded")
			w.awaitBlocked("INSERT INTO intake")
			return cut
		}, blocked: "INSERT INTO intake", state: "succeeded", requests: 1},
	}
}

func (w *world) awaitRequest(o order) {
	w.t.Helper()
	w.await(func() bool { return len(w.provider.requestsOf(o)) > 0 }, "the provider has the request")
}

// Whatever the step at which the process is killed: nothing is lost, nothing is charged twice.
func TestKilledAtEachStep(t *testing.T) {
	for _, k := range killPoints() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, killable()...)
			first, o := w.start(), w.newOrder()
			cut := k.stand(w, o)
			first.kill9()
			require.Equal(t, k.state, w.row(o).State)
			require.Empty(t, w.kafka.Committed(w.group, w.main), "no offset has moved")
			if k.blocked != "" {
				w.forgetBlocked(k.blocked)
			}
			cut()

			w.start()
			w.awaitCharged(o)
			w.settled()
			w.chargedOnce(o)
			requests := w.provider.requestsOf(o)
			require.Len(t, requests, k.requests)
			require.Equal(t, requests[0].key, requests[len(requests)-1].key)
			require.Equal(t, k.retried, w.kafka.Count(w.tiers[0]))
			require.Zero(t, w.kafka.Count(w.dlq))
			require.Len(t, w.resultsOf(o), 1)
		})
	}
}

// The decline is stored and the process dies before the dead letter is out: the redelivery publishes it, without asking the
// provider again (H4).
func TestDeclineSurvivesAKillBeforeItsDeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, killable()...)
	first, o := w.start(), w.newOrder()
	w.provider.script(o, refuses(402, "card_declined"))
	cut := w.block("record_fates")
	original := w.produce(o)[0]
	w.awaitBlocked("INSERT INTO record_fates")
	require.Equal(t, "declined", w.row(o).State)
	first.kill9()
	w.forgetBlocked("INSERT INTO record_fates")
	cut()
	w.nowhere()

	w.start()
	letter := w.awaitOne(w.dlq, o)
	w.standsFor(letter, original)
	require.Equal(t, "declined", header(letter, "x-error-class"))
	require.Len(t, w.provider.requestsOf(o), 1)
	require.EqualValues(t, 1, w.settled().Dead)
	require.Len(t, w.resultsOf(o), 1)
}

// The dead letter is out and the process dies before the offset moves: it is published twice, and counts once (H17).
func TestDeadLetterPublishedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, killable()...)
	first, o := w.start(), w.newOrder()
	w.provider.script(o, refuses(400, "bad"))
	cut := w.block("intake")
	w.produce(o)
	w.awaitOne(w.dlq, o)
	first.kill9()
	cut()

	second := w.start()
	w.await(func() bool { return len(w.tail.of(w.dlq, o.id.String())) == 2 }, "published again")
	require.Len(t, w.provider.requestsOf(o), 1)
	require.EqualValues(t, 1, w.settled().Dead)
	letters := second.letters(2)
	require.Nil(t, letters[1].DuplicateOf)
	require.Equal(t, &letters[1].ID, letters[0].DuplicateOf)
	require.Equal(t, 1, second.unresolved())
}

// Killed again and again in the middle of a crowd of orders, of which some fail.
func TestKilledInTheMiddleOfManyCharges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(killable(), "BILLING_CONCURRENCY=32")...)
	w.provider.always(late(crowdLatency, moneyMoves))
	orders := w.newOrders(600)
	for n, o := range orders {
		if n%10 == 0 {
			w.provider.script(o, moneyMovesThen(late(crowdLatency, refuses(500, ""))))
		}
	}
	w.produce(orders...)
	for _, part := range []int{1, 3} {
		i := w.start()
		w.await(func() bool { return w.charged(orders) >= part*len(orders)/5 }, "%d fifths are charged", part)
		i.kill9()
		require.Less(t, w.charged(orders), len(orders), "there is something left to do")
	}
	w.start()
	w.awaitCharged(orders...)
	w.settled()
	w.chargedOnce(orders...)
	for _, o := range orders {
		require.Len(t, w.resultsOf(o), 1, "one result event, however often it was published")
	}
}
