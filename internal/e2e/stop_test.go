package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stop while the provider hangs: out within ten seconds, nothing is counted as a failure, and the money that may have
// moved is found by its key after the restart.
func TestStopWhileTheProviderHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_PROVIDER_TIMEOUT=1m", "BILLING_LEASE=70s")
	first := w.start()
	w.provider.always(moneyMovesThen(hangs))
	orders := w.newOrders(5)
	w.produce(orders...)
	for _, o := range orders {
		w.awaitRequest(o)
	}
	first.stop()
	w.nowhere()
	require.Empty(t, w.kafka.Committed(w.group, w.main), "no offset has moved")
	for _, o := range orders {
		require.Equal(t, row{State: "unknown", Reason: "shutting_down", Unknown: true, Attempts: 1, Generation: 1}, w.row(o))
	}

	w.provider.always(moneyMoves)
	restarted := time.Now()
	w.start()
	w.awaitCharged(orders...)
	require.Less(t, time.Since(restarted), 30*time.Second, "no lease to wait for")
	w.settled()
	w.chargedOnce(orders...)
	w.nowhere()
	for _, o := range orders {
		require.Len(t, w.provider.requestsOf(o), 2)
	}
}

// A stop while orders are charged lets them end, and hands over what is left.
func TestStopLetsChargesEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.always(late(500*time.Millisecond, moneyMoves))
	first := w.start()
	orders := w.newOrders(20)
	w.produce(orders...)
	for _, o := range orders {
		w.awaitRequest(o)
	}
	first.stop()
	w.chargedOnce(orders...)
	require.True(t, w.committed(w.main, w.group), "the offsets have moved")
	require.Zero(t, w.count(`SELECT count(*) FROM outbox`), "the results of the last ones are out")
	w.nowhere()
	w.start()
	w.settled()
	require.Len(t, w.provider.keys(), len(orders))
	requests, _ := w.provider.total()
	require.Equal(t, len(orders), requests, "nothing was asked twice")
}

// A stop while the line is held and while messages wait in the tiers.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_RETRY_DELAYS=5s,10m,1h")
	first := w.start()
	failing, heldUp := w.newOrder(), w.newOrder()
	w.provider.script(failing, refuses(500, ""))
	w.produce(failing)
	due := w.millis(w.awaitOne(w.tiers[0], failing), "x-not-before")
	w.provider.always(refuses(401, ""))
	w.produce(heldUp)
	first.awaitHeld("provider_unauthorized")
	first.stop()

	w.provider.always(moneyMoves)
	w.start()
	w.awaitCharged(failing, heldUp)
	require.False(t, w.provider.requestsOf(failing)[1].at.Before(due), "not early, across a restart")
	w.chargedOnce(failing, heldUp)
	w.settled()
}

// A stop while the broker is away: what cannot be committed is redelivered, and recognised.
func TestStopWithoutTheBroker(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t)
	first := w.start()
	cut := w.block("intake") // no offset moves
	orders := w.newOrders(5)
	w.produce(orders...)
	w.awaitCharged(orders...)
	w.kafka.Down()
	w.await(func() bool { ok, reasons := first.ready(); return !ok && strings.Contains(reasons, "broker: ") }, "not ready")
	first.end()
	cut()

	w.kafka.Up()
	w.start()
	w.settled()
	w.chargedOnce(orders...)
	requests, _ := w.provider.total()
	require.Equal(t, len(orders), requests, "nothing was asked twice")
}
