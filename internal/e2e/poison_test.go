package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// H15: one message kills the process each time it is charged. After a few deaths its partition is handled carefully, it dies
// alone, and it ends in the dead letters; the others are charged, and no attempt of theirs was counted.
func TestAMessageThatKillsTheProcessEndsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, killable()...)
	innocent, poison := w.newOrders(30), w.newOrder()
	w.provider.stick(poison, hangs)
	w.produce(append(append(innocent[:15:15], poison), innocent[15:]...)...)
	deaths := 0
	for dead := false; !dead; {
		require.Less(t, deaths, 12, "it should have been found by now")
		before := len(w.provider.requestsOf(poison))
		i := w.start()
		w.await(func() bool {
			dead = len(w.tail.of(w.dlq, poison.id.String())) > 0
			return dead || len(w.provider.requestsOf(poison)) > before
		}, "the message to be handled or given up")
		if !dead {
			i.kill9()
			deaths++
		}
	}
	t.Logf("%d deaths", deaths)
	letter := w.awaitOne(w.dlq, poison)
	require.Equal(t, "poison", w.kafka.Header(letter, "x-error-class"))
	require.Equal(t, "poison", w.kafka.Header(letter, "x-error-reason"))
	w.awaitCharged(innocent...)
	w.chargedOnce(innocent...)
	for _, o := range innocent {
		require.Empty(t, w.tail.of(w.tiers[0], o.id.String()), "no failure was counted")
	}
	w.await(func() bool { return w.committed(w.main, w.group) }, "all offsets are committed")
	b := w.balance()
	require.Equal(t, []int64{31, 30, 1, 0}, []int64{b.Taken, b.Charged, b.Dead, b.Difference})
}
