package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowdLatency is how long the provider takes for each of many charges.
const crowdLatency = 20 * time.Millisecond

// awaitShare waits until the instance has partitions of the main topic.
func (i *instance) awaitShare() {
	i.w.t.Helper()
	i.w.await(func() bool {
		for _, line := range i.log.lines() {
			partitions, _ := line["partitions"].([]any)
			if line["msg"] == "partitions assigned" && line["topic"] == i.w.main && len(partitions) > 0 {
				return true
			}
		}
		return false
	}, "it has partitions")
}

// Two more instances come in the middle of 2,000 charges; one leaves in order, one is killed.
func TestRebalanceInTheMiddleOfCharges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(killable(), "BILLING_CONCURRENCY=4")...) // slow enough for a rebalance to come in between
	w.provider.always(late(crowdLatency, moneyMoves))
	orders := w.newOrders(2000)
	w.produce(orders...)
	progress := func(n int) {
		t.Helper()
		from := w.charged(orders)
		w.await(func() bool { return w.charged(orders) >= from+n }, "%d more are charged", n)
		require.Less(t, w.charged(orders), len(orders), "it is still the middle")
	}
	first := w.start()
	progress(100)

	second := w.start()
	second.awaitShare()
	progress(100)
	second.stop()
	progress(100)

	third := w.start()
	third.awaitShare()
	progress(100)
	third.kill9()
	progress(1)

	w.awaitCharged(orders...)
	w.settled()
	w.chargedOnce(orders...)
	w.nowhere()
	first.stop()
}

// Static membership is a setting of the client: an instance that died and is back at once has its partitions back at once,
// long before the session of the dead one ends.
func TestStaticMemberIsBackAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_KAFKA_EXTRA=session.timeout.ms=30000,group.instance.id=billing-0")
	first, o := w.start(), w.newOrder()
	w.produce(o)
	w.awaitCharged(o)
	first.kill9()
	back := time.Now()
	w.start()
	o = w.newOrder()
	w.produce(o)
	w.awaitCharged(o)
	require.Less(t, time.Since(back), 20*time.Second)
}
