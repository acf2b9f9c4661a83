package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing/pgstore"
)

// balanced runs the command and reads its report.
func (w *world) balanced(code int) (report struct {
	Topic string
	pgstore.Books
}) {
	w.t.Helper()
	c := w.run([]string{"BILLING_KAFKA_BROKERS=", "BILLING_PROVIDER_URL="}, "balance", "-o", "json") // it needs the database alone
	require.Equal(w.t, code, c.code, "%s\n%s", c.err, c.out)
	require.NoError(w.t, json.Unmarshal([]byte(c.out), &report))
	return report
}

// moody fails in all the ways that an order survives, and in some that it does not.
func moody(x *exchange) {
	switch rand.IntN(10) {
	case 0:
		refuses(500, "")(x)
	case 1:
		moneyMovesThen(refuses(503, ""))(x)
	case 2:
		moneyMovesThen(breaksOff)(x)
	case 3:
		refuses(402, "card_declined")(x)
	case 4:
		refuses(400, "unknown_customer")(x)
	default:
		late(time.Duration(rand.IntN(20))*time.Millisecond, moneyMoves)(x)
	}
}

// Orders come and fail, wait, die and are replayed, are repeated and contradicted; instances come and are killed. Whenever one
// looks, the books are even.
func TestTheBooksAreEvenWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(killable(), "BILLING_FAULT_POLICY=document", "BILLING_CONCURRENCY=32")...)
	w.provider.always(moody)
	orders := w.newOrders(400)
	first := w.start()
	second := w.start()
	var produced atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		everyNowAndThen := time.NewTicker(10 * time.Millisecond)
		defer everyNowAndThen.Stop()
		for n, o := range orders {
			<-everyNowAndThen.C
			records := []order{o}
			switch n % 10 {
			case 0:
				records = append(records, o, o.again())
			case 1:
				dearer := o.again()
				dearer.amount = "1490.00"
				records = append(records, dearer)
			case 2:
				w.kafka.Produce(garbage(w.main))
			}
			w.produce(records...)
		}
		produced.Store(true)
	}()
	checks := 0
	look := func() {
		w.even()
		checks++
	}
	for at := 0; !produced.Load(); at++ {
		look()
		switch at {
		case 200:
			first.kill9()
		case 250:
			first = w.start()
		}
		if at%40 == 39 {
			target := []string{w.tiers[0], w.main}[at/40%2]
			second.call(http.MethodPost, "/admin/dlq/"+w.dlq+"/replay?target_topic="+target, operatorToken, "") // refused while the list's reader is dead
		}
	}
	<-done
	w.await(func() bool {
		look()
		idle := w.committed(w.main, w.group)
		for _, tier := range w.tiers {
			idle = idle && w.committed(tier, w.groupOf(tier))
		}
		return idle && w.count(`SELECT count(*) FROM outbox`) == 0
	}, "rest")
	replays := w.count(`SELECT count(*) FROM dead_letters WHERE state = 'replayed'`)
	t.Logf("%d checks, %d replays", checks, replays)
	require.Positive(t, replays)
	require.Greater(t, checks, 60)
	b := w.settled()
	require.Positive(t, b.Charged)
	require.Positive(t, b.Dead)
	for _, o := range orders {
		require.LessOrEqual(t, len(w.provider.chargesOf(o)), 1)
	}

	// The command says the same, and tells what is wrong when something is.
	report := w.balanced(0)
	require.Equal(t, w.main, report.Topic)
	require.Equal(t, b, report.Total)
	require.Contains(t, w.mustRun("balance").out, "even: ")
	var partition int32
	var offset int64
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `DELETE FROM record_fates WHERE (topic_id, partition, "offset") IN (
		SELECT topic_id, partition, "offset" FROM record_fates WHERE fate = 'dead' AND order_id IS NULL LIMIT 1) RETURNING partition, "offset"`).Scan(&partition, &offset))
	report = w.balanced(3)
	require.Equal(t, []pgstore.Flaw{{Kind: pgstore.NoFate, Partition: &partition, Records: 1, Offsets: []pgstore.Offsets{{From: offset, To: offset}}}}, report.Flaws)
	table := w.run(nil, "balance")
	require.Equal(t, 3, table.code)
	require.Contains(t, table.out, "produce them again")
	unknown := w.run([]string{"BILLING_TOPIC=elsewhere"}, "balance")
	require.Equal(t, 2, unknown.code)
	require.Contains(t, unknown.err, "BILLING_TOPIC")
	require.Equal(t, 1, w.run([]string{"BILLING_DATABASE_URL=postgres://127.0.0.1:1/none"}, "balance").code)
}
