package deadletter_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/testkit"
)

// transact produces the records in a transaction that ends as asked, and leaves its marker behind them.
func (w *world) transact(end kgo.TransactionEndTry, records ...*kgo.Record) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.kafka.Brokers), kgo.TransactionalID(uuid.NewString()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(w.t, err)
	defer client.Close()
	require.NoError(w.t, client.BeginTransaction())
	require.NoError(w.t, client.ProduceSync(w.t.Context(), records...).FirstErr())
	require.NoError(w.t, client.EndTransaction(w.t.Context(), end))
}

func (w *world) purge(partition int32, before int64) {
	w.t.Helper()
	var del kadm.Offsets
	del.Add(kadm.Offset{Topic: w.ladder.DeadLetters(), Partition: partition, At: before})
	_, err := w.kafka.Admin.DeleteRecords(w.t.Context(), del)
	require.NoError(w.t, err)
}

// The last offsets of a partition need not be records: markers of transactions, aborted or purged ones. A replay waited for
// them for ever, and was refused; a restart did not help.
func TestEndsThatAreNoRecords(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"a committed transaction": func(w *world) { w.transact(kgo.TryCommit, w.dead(uuid.New(), 8)) },
		"an aborted transaction":  func(w *world) { w.transact(kgo.TryAbort, w.dead(uuid.New(), 8)) },
		"a purged tail": func(w *world) {
			w.kafka.Produce(w.dead(uuid.New(), 8))
			w.purge(0, -1)
			w.purge(1, -1)
			w.purge(2, -1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			stop := w.ingest(0)
			w.kafka.Produce(w.dead(uuid.New(), 1))
			w.listed(1)
			leave(w)
			req := w.request()
			req.DryRun = true
			_, err := w.replayer(w.publisher).Replay(t.Context(), req)
			require.NoError(t, err, "while it lists")
			stop()
			w.exec(`UPDATE dead_letter_positions SET next_offset = 0`)
			w.ingest(0)
			_, err = w.replayer(w.publisher).Replay(t.Context(), w.request())
			require.NoError(t, err, "after a restart")
		})
	}
}

// A record that is named and is no record any more, the marker behind it, say, is told as missing, at once.
func TestANamedEndThatIsNoRecord(t *testing.T) {
	w := newWorld(t)
	w.ingest(0)
	r := w.dead(uuid.New(), 8)
	w.transact(kgo.TryCommit, r)
	marker := deadletter.Place{Partition: r.Partition, Offset: r.Offset + 1}
	found, err := deadletter.NewRecords(w.db.Pool, w.reader, w.reader).At(t.Context(), w.ladder.DeadLetters(), []deadletter.Place{place(r), marker})
	require.NoError(t, err)
	require.Len(t, found, 1)
	res, err := w.replayer(w.publisher).Replay(t.Context(), w.request(marker))
	require.NoError(t, err)
	require.Equal(t, map[deadletter.Skip]int{deadletter.SkipNotFound: 1}, res.Skipped)
}

// Named messages wait for their own partitions, and for nothing behind them.
func TestNamedMessagesWaitForTheirOwnPartitions(t *testing.T) {
	w := newWorld(t)
	records := []*kgo.Record{w.dead(uuid.New(), 1), w.dead(uuid.New(), 2), w.dead(uuid.New(), 3)}
	for i, r := range records {
		r.Partition = int32(i)
	}
	w.transact(kgo.TryCommit, records...)
	stop := w.ingest(0)
	w.listed(3)
	testkit.Eventually(t, func() bool { return w.position(1) == 2 }, "the marker is passed")
	stop()
	w.exec(`UPDATE dead_letter_positions SET next_offset = 0 WHERE partition <> 1`)
	w.exec(`UPDATE dead_letter_positions SET next_offset = 1 WHERE partition = 1`) // the named one is listed, what is behind it is not
	res, err := w.replayer(w.publisher).Replay(t.Context(), w.request(place(records[1]), deadletter.Place{Partition: 99, Offset: 1}))
	require.NoError(t, err)
	require.Equal(t, 1, res.Replayed)
	require.Equal(t, map[deadletter.Skip]int{deadletter.SkipNotFound: 1}, res.Skipped)
}

func (w *world) position(partition int32) (next int64) {
	w.t.Helper()
	require.NoError(w.t, w.db.Pool.QueryRow(w.t.Context(), `SELECT max(next_offset) FROM dead_letter_positions WHERE partition = $1`, partition).Scan(&next))
	return next
}
