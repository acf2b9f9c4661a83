package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

const floodCount = 5

func newFloodedWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, fmt.Sprint("BILLING_FLOOD_COUNT=", floodCount))
}

// A producer writes nonsense: good orders are charged meanwhile, a restart lets nobody more die, and a person who has looked
// lets the rest go (H25).
func TestAFloodOfUnreadableRecords(t *testing.T) {
	t.Parallel()
	w := newFloodedWorld(t)
	i := w.start()
	const bad = 60
	var nonsense []*kgo.Record
	for n := range bad {
		nonsense = append(nonsense, &kgo.Record{Topic: w.main, Key: fmt.Append(nil, "bad", n), Value: []byte(`{"order_id": "?"`)})
	}
	w.kafka.Produce(nonsense...)
	i.awaitHeld("dead_letter_flood")
	good := w.newOrders(20)
	w.produce(good...)
	w.awaitCharged(good...)
	w.await(func() bool { return w.count(`SELECT count(*) FROM dead_letter_flood`) == 1 }, "the flood is kept")
	died := w.kafka.Count(w.dlq)
	require.Less(t, died, floodCount)
	w.await(func() bool { return w.count(`SELECT count(*) FROM dead_letters`) == died }, "those that died are listed")

	i.kill9()
	i = w.start()
	i.awaitHeld("dead_letter_flood")
	more := w.newOrders(20)
	w.produce(more...)
	w.awaitCharged(more...)
	letters := `SELECT count(*) FROM dead_letters WHERE duplicate_of IS NULL`
	require.Equal(t, died, w.count(letters), "a restart changes nothing")

	env := []string{"BILLING_ADMIN_URL=http://" + i.addr, "BILLING_ADMIN_TOKEN=" + operatorToken}
	accept := func(code string, count int) command {
		return w.run(env, "consumption", "accept", "--reason-code", code, "--count", fmt.Sprint(count), "--reason", "a test of the producer")
	}
	c := accept("not_json", 10)
	require.Zero(t, c.code, c.err)
	require.Equal(t, "10 messages may die for not_json.\n", c.out)
	w.await(func() bool { return w.count(letters) == died+10 }, "ten have died")
	require.Equal(t, 1, accept("provider_5xxx", 10).code)
	require.Equal(t, 2, w.run(env, "consumption", "accept", "--count", "3").code)
	require.Zero(t, accept("not_json", bad).code)
	w.await(func() bool { return w.count(letters) == bad }, "all have died")
	require.EqualValues(t, bad, w.settled().Dead, "those that died before the restart are published again, and count once")
	w.chargedOnce(append(good, more...)...)
}

// The provider refuses everyone for a while: those few that died before it was noticed are refused, all others are charged
// after the cure, and no refusal of theirs was announced (H26).
func TestAFloodOfRefusals(t *testing.T) {
	for _, refusal := range []struct {
		name   string
		answer answer
	}{{"400", refuses(400, "bad")}, {"402", refuses(402, "card_declined")}, {"422", refuses(422, "amount_not_supported")}} {
		t.Run(refusal.name, func(t *testing.T) {
			t.Parallel()
			w := newFloodedWorld(t)
			i := w.start()
			w.provider.always(refusal.answer)
			orders := w.newOrders(200)
			w.produce(orders...)
			i.awaitHeld("dead_letter_flood")
			w.await(func() bool { requests, _ := w.provider.total(); return requests >= len(orders) }, "all were refused")
			cured := time.Now()
			w.provider.always(moneyMoves)
			charged := slices.DeleteFunc(orders, func(o order) bool { return w.row(o).State == "declined" || w.row(o).State == "rejected" })
			refused := 200 - len(charged)
			require.Less(t, refused, floodCount)
			w.awaitCharged(charged...)
			t.Logf("%d refused, %d charged %s after the cure", refused, len(charged), time.Since(cured).Round(10*time.Millisecond))
			require.Equal(t, refused, w.kafka.Count(w.dlq))
			w.settled()
			w.chargedOnce(charged...)
			for _, o := range charged {
				require.Len(t, w.resultsOf(o), 1)
			}
		})
	}
}

// The process is killed each time before its flood is counted: the next one counts those that died before (H25).
func TestRestartsBeforeAFloodIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(killable(), fmt.Sprint("BILLING_FLOOD_COUNT=", floodCount))...)
	w.provider.always(refuses(400, "bad"))
	for n := range 2 { // a third start at one offset would handle its records one at a time
		i := w.start()
		w.produce(w.newOrders(floodCount - 1)...)
		w.await(func() bool { return w.count(`SELECT count(*) FROM charges`) == (n+1)*(floodCount-1) }, "all were refused")
		if n == 0 {
			w.await(func() bool { return w.count(`SELECT count(*) FROM dead_letters`) == floodCount-1 }, "they died, and are listed")
		}
		i.kill9()
	}
	require.Less(t, w.count(`SELECT count(*) FROM charges WHERE state = 'rejected'`), floodCount)
}

// Instances that work together share the limit (attack: three let three times as many orders die).
func TestInstancesShareTheLimitOfAFlood(t *testing.T) {
	t.Parallel()
	const limit, instances = 60, 3
	w := newWorld(t, fmt.Sprint("BILLING_FLOOD_COUNT=", limit))
	for range instances {
		w.start().awaitShare()
	}
	start := time.Now()
	w.await(func() bool { return time.Since(start) > 2*time.Second }, "each has counted the others, once a second")
	w.provider.always(refuses(400, "bad"))
	orders := w.newOrders(600)
	w.produce(orders...)
	w.await(func() bool { requests, _ := w.provider.total(); return requests >= len(orders) }, "all were refused")
	w.provider.always(moneyMoves)
	w.await(func() bool {
		return w.count(`SELECT count(*) FROM charges WHERE state IN ('succeeded', 'rejected')`) == len(orders)
	}, "all others are charged")
	refused := w.count(`SELECT count(*) FROM charges WHERE state = 'rejected'`)
	t.Logf("%d refused", refused)
	require.Less(t, refused, limit)
	w.settled()
}

// After three crashes at one offset records are handled one at a time. Those whose verdict is withheld do not hold up the
// good ones behind them, also when none of them is charged and nobody lets them go.
func TestAFloodDoesNotStopTheCarefulPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(killable(), fmt.Sprint("BILLING_FLOOD_COUNT=", floodCount))...)
	w.provider.always(hangs)
	first := w.newOrder()
	w.provider.stick(first, hangs)
	w.produce(first)
	for n := range 3 {
		i := w.start()
		w.await(func() bool { return len(w.provider.requestsOf(first)) > n }, "it is in work again")
		i.kill9()
	}
	for n := range 20 {
		w.kafka.Produce(&kgo.Record{Topic: w.main, Key: []byte(first.id.String()), Value: fmt.Append(nil, "no order ", n)})
	}
	good := w.newOrders(20)
	w.provider.always(moneyMoves)
	w.produce(good...)
	w.provider.stick(first, moneyMoves)
	i := w.start()
	i.awaitHeld("dead_letter_flood")
	w.awaitCharged(append(good, first)...)
	require.Less(t, w.count(`SELECT count(*) FROM record_fates WHERE fate = 'dead'`), floodCount)
	w.chargedOnce(good...)
}
