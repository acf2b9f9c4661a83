package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing/pgstore"
)

// row is what the database says of an order. The zero row: nothing.
type row struct {
	State      string
	Reason     string
	Unknown    bool
	Attempts   int
	Generation int
	ChargeID   string
}

func (w *world) row(o order) (r row) {
	w.t.Helper()
	err := w.db.Pool.QueryRow(w.t.Context(), `SELECT state, coalesce(reason, ''), outcome_unknown, attempts, generation, coalesce(provider_charge_id, '')
		FROM charges WHERE order_id = $1`, o.id).Scan(&r.State, &r.Reason, &r.Unknown, &r.Attempts, &r.Generation, &r.ChargeID)
	if !errors.Is(err, pgx.ErrNoRows) {
		require.NoError(w.t, err)
	}
	return r
}

func (w *world) awaitState(o order, state string) {
	w.t.Helper()
	w.await(func() bool { return w.row(o).State == state }, "order %s is %s", o.id, state)
}

// awaitCharged waits until all the orders are charged.
func (w *world) awaitCharged(os ...order) {
	w.t.Helper()
	w.await(func() bool { return w.charged(os) == len(os) }, "%d orders are charged", len(os))
}

// charged is how many of the orders are charged, as the database knows.
func (w *world) charged(os []order) int {
	w.t.Helper()
	return w.count(`SELECT count(*) FROM charges WHERE state = 'succeeded' AND order_id = ANY ($1)`, ids(os))
}

func ids(os []order) []uuid.UUID {
	all := make([]uuid.UUID, len(os))
	for i, o := range os {
		all[i] = o.id
	}
	return all
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.db.Pool.QueryRow(w.t.Context(), sql, args...).Scan(&n))
	return n
}

// chargedOnce checks the two ledgers against each other: money moved once for each order, and the row has that charge.
func (w *world) chargedOnce(os ...order) {
	w.t.Helper()
	for _, o := range os {
		charges := w.provider.chargesOf(o)
		require.Len(w.t, charges, 1, "how often money moved for order %s", o.id)
		require.Equal(w.t, o.amount, charges[0].Amount)
		if len(os) < 100 { // else the two counts below tell
			require.Equal(w.t, charges[0].ID, w.row(o).ChargeID)
		}
	}
	require.Equal(w.t, len(os), w.charged(os))
	require.Zero(w.t, w.count(`SELECT count(*) FROM charge_anomalies`), "anomalies")
}

// settled waits until every record has found its fate and every offset is committed, and checks that nothing is missing
// and nothing stands twice: records taken = charged + duplicate + dead.
func (w *world) settled() pgstore.Balance {
	w.t.Helper()
	w.await(func() bool {
		done := w.committed(w.main, w.group)
		for _, tier := range w.tiers {
			done = done && w.committed(tier, w.groupOf(tier))
		}
		return done
	}, "all offsets are committed")
	w.await(func() bool { return w.count(`SELECT count(*) FROM outbox`) == 0 }, "all result events are published")
	books := w.even()
	b := books.Total
	require.Zero(w.t, b.Waiting, "balance %+v", b)
	replays := w.count(`SELECT count(*) FROM record_fates WHERE fate = 'replay'`)
	require.EqualValues(w.t, w.kafka.Count(w.main)-replays, b.Taken, "balance %+v", b)
	require.Zero(w.t, w.count(`SELECT count(*) FROM charges WHERE state = 'in_flight'`), "open claims")
	return b
}

// groupOf is the group that reads the retry topic.
func (w *world) groupOf(tier string) string {
	return w.group + "-" + strings.TrimPrefix(tier, w.main+".")
}

// committed reports whether the group has committed the end of every partition that holds anything.
func (w *world) committed(topic, group string) bool {
	w.t.Helper()
	ends, err := w.kafka.Admin.ListEndOffsets(w.t.Context(), topic)
	require.NoError(w.t, err)
	committed := w.kafka.Committed(group, topic)
	for partition, end := range ends[topic] {
		if committed[partition] != end.Offset {
			return false
		}
	}
	return true
}

// even checks the books as they are now, with whatever is under way.
func (w *world) even() pgstore.Books {
	w.t.Helper()
	store, topic := w.store()
	b, err := store.CheckBooks(w.t.Context(), topic)
	require.NoError(w.t, err)
	require.Empty(w.t, b.Flaws, "%+v", b)
	for p, balance := range b.Partitions {
		require.Zero(w.t, balance.Difference, "partition %d: %+v", p, balance)
	}
	return b
}

// balance asks the books of the service.
func (w *world) balance() pgstore.Balance {
	w.t.Helper()
	store, topic := w.store()
	b, err := store.Balance(w.t.Context(), topic)
	require.NoError(w.t, err)
	return b
}

// store is one like the service's, and topic the main topic's id.
func (w *world) store() (store *pgstore.Store, topic uuid.UUID) {
	w.t.Helper()
	store, err := pgstore.New(pgstore.Config{
		Pool: w.db.Pool, Lease: 15 * time.Second, ProviderTimeout: 10 * time.Second, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(w.t, err)
	topics, err := w.kafka.Admin.ListTopics(w.t.Context(), w.main)
	require.NoError(w.t, err)
	return store, uuid.UUID(topics[w.main].ID)
}

// result is an event as the contract writes it. Every field that it may have stands here.
type result struct {
	EventID          string `json:"event_id"`
	EventType        string `json:"event_type"`
	OccurredAt       string `json:"occurred_at"`
	OrderID          string `json:"order_id"`
	Generation       int    `json:"generation"`
	Version          int    `json:"version"`
	Amount           string `json:"amount"`
	Currency         string `json:"currency"`
	ProviderChargeID string `json:"provider_charge_id"`
	Kind             string `json:"kind"`
	Reason           string `json:"reason"`
}

// resultsOf are the distinct result events of the order, as they were published first.
func (w *world) resultsOf(o order) (events []result) {
	w.t.Helper()
	seen := map[string]bool{}
	for _, r := range w.tail.of(results, o.id.String()) {
		var e result
		d := json.NewDecoder(strings.NewReader(string(r.Value)))
		d.DisallowUnknownFields()
		require.NoError(w.t, d.Decode(&e))
		if !seen[e.EventID] {
			seen[e.EventID] = true
			events = append(events, e)
		}
	}
	return events
}

// block makes the service's next write to the table wait, until it is released.
func (w *world) block(table string) (release func()) {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.db.URL)
	require.NoError(w.t, err)
	tx, err := conn.Begin(w.t.Context())
	require.NoError(w.t, err)
	_, err = tx.Exec(w.t.Context(), "LOCK TABLE "+table+" IN EXCLUSIVE MODE")
	require.NoError(w.t, err)
	release = func() { _ = conn.Close(context.Background()) } // rolls back; twice does no harm
	w.t.Cleanup(release)
	return release
}

// blockedSQL finds the service's sessions whose statement waits for a lock.
const blockedSQL = `FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'billing'
	AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`

// awaitBlocked waits until a statement of the service with this text waits for the lock.
func (w *world) awaitBlocked(statement string) {
	w.t.Helper()
	w.await(func() bool { return w.count(`SELECT count(*) `+blockedSQL, statement) > 0 }, "%s is blocked", statement)
}

// forgetBlocked ends the blocked sessions of an instance that was killed: what it had asked for must not happen after its
// death, when the lock is gone.
func (w *world) forgetBlocked(statement string) {
	w.t.Helper()
	require.Positive(w.t, w.count(`SELECT count(pg_terminate_backend(pid)) `+blockedSQL, statement))
	w.await(func() bool { return w.count(`SELECT count(*) `+blockedSQL, statement) == 0 }, "sessions of the dead have ended")
}
