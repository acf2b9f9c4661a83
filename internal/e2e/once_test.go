package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The same event again, and the same order confirmed by other events, at the same time and later: one request, one charge.
func TestDuplicatesAreChargedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	o := w.newOrder()
	w.produce(o, o, o.again(), o)
	other, keyless := o.again().record(w.main), o.record(w.main)
	other.Key, keyless.Key = []byte("another key"), nil
	w.kafka.Produce(other, keyless) // where nothing keeps their order
	w.awaitCharged(o)
	w.produce(o, o.again())
	b := w.settled()
	require.EqualValues(t, 1, b.Charged)
	require.EqualValues(t, 7, b.Duplicate)
	require.Len(t, w.provider.requestsOf(o), 1)
	w.chargedOnce(o)
	require.Len(t, w.resultsOf(o), 1)
	w.nowhere()
}

// Orders that share a key wait for each other only as long as they are in one topic: a key is no order.
func TestOrdersThatShareAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	failing, other, keyless := w.newOrder(), w.newOrder(), w.newOrder()
	w.provider.script(failing, refuses(500, ""))
	var records []*kgo.Record
	for _, o := range []order{failing, other, keyless, failing.again()} {
		r := o.record(w.main)
		r.Key = []byte("the same key")
		records = append(records, r)
	}
	records[2].Key = nil
	w.kafka.Produce(records...)
	w.awaitCharged(failing, other, keyless)
	b := w.settled()
	require.EqualValues(t, 3, b.Charged)
	require.EqualValues(t, 1, b.Duplicate)
	w.chargedOnce(failing, other, keyless)
	require.Len(t, w.provider.requestsOf(other), 1)
}

// The same order with another amount is a matter for a person, and never for the provider; the good one that waits in a
// retry topic is charged all the same (H19).
func TestConflictLeavesTheGoodOrderAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	good := w.newOrder()
	w.provider.script(good, refuses(500, ""))
	w.produce(good)
	w.awaitOne(w.tiers[0], good)

	dearer, other := good.again(), good.again()
	dearer.amount = "1490.00"
	other.customer = good.id // another customer
	original := w.produce(dearer, other)
	w.await(func() bool { return len(w.tail.of(w.dlq, good.id.String())) == 2 }, "two conflicts")
	w.awaitCharged(good)
	w.produce(dearer) // also after the charge
	w.await(func() bool { return len(w.tail.of(w.dlq, good.id.String())) == 3 }, "three conflicts")

	letters := w.tail.of(w.dlq, good.id.String())
	w.standsFor(letters[0], original[0])
	for _, letter := range letters {
		require.Equal(t, []string{"conflict", "order_conflict"}, []string{header(letter, "x-error-class"), header(letter, "x-error-reason")})
	}
	require.Len(t, w.provider.requestsOf(good), 2)
	w.chargedOnce(good)
	b := w.settled()
	require.EqualValues(t, 3, b.Dead)
	require.EqualValues(t, 1, b.Charged)
}

// The money moved and nobody said so: the same key finds the charge.
func TestChargeThatTimedOutIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_PROVIDER_TIMEOUT=1s")
	w.start()
	o := w.newOrder()
	w.provider.script(o, moneyMovesThen(hangs), moneyMovesThen(breaksOff))
	w.produce(o)
	w.awaitCharged(o)
	requests := w.provider.requestsOf(o)
	require.Len(t, requests, 3)
	require.Equal(t, requests[0].key, requests[1].key)
	require.Equal(t, requests[0].key, requests[2].key)
	w.chargedOnce(o)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM charge_attempts WHERE order_id = $1 AND replayed AND reason IS NULL`, o.id))
	w.settled()
}

// After an outcome that may have moved money, a refusal proves nothing: the order stays unknown (H5).
func TestUnknownIsSticky(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	stop := w.keepOthersComing() // alone it would hold the line
	o := w.newOrder()
	w.provider.script(o, moneyMovesThen(refuses(500, "")), refuses(400, "key_too_old"), refuses(400, "key_too_old"), refuses(422, "no"))
	w.produce(o)
	letter := w.awaitOne(w.dlq, o)
	require.Equal(t, []string{"unknown", "refused_after_unknown", "4"}, []string{header(letter, "x-error-class"), header(letter, "x-error-reason"), header(letter, "x-retry-attempt")})
	require.Equal(t, "unknown", w.row(o).State)
	stop()
	w.settled()
	require.Empty(t, w.resultsOf(o), "an unknown outcome is no failure")
}

// A decline is final: another event of the order is refused with the stored reason, and the provider is not asked again.
func TestDeclineIsFinal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	o := w.newOrder()
	w.provider.stick(o, refuses(402, "insufficient_funds"))
	w.produce(o)
	w.awaitOne(w.dlq, o)
	w.provider.cure(o)
	w.produce(o, o.again())
	w.await(func() bool { return len(w.tail.of(w.dlq, o.id.String())) == 3 }, "a dead letter for each record")
	for _, letter := range w.tail.of(w.dlq, o.id.String()) {
		require.Equal(t, []string{"declined", "declined"}, []string{header(letter, "x-error-class"), header(letter, "x-error-reason")})
	}
	require.Len(t, w.provider.requestsOf(o), 1)
	require.EqualValues(t, 3, w.settled().Dead)
	require.Len(t, w.resultsOf(o), 1)
}
