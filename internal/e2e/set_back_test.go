package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/testkit"
)

// A backup, orders of all kinds, and the backup again: what the database has forgotten is found at the provider, charged once,
// with its row and its event (hazard H27).
func TestRestoredDatabaseIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_RETRY_DELAYS=4s,5s,6s")
	i := w.start()
	before := w.newOrders(5)
	w.produce(before...)
	w.awaitCharged(before...)
	waiting := w.newOrder() // in the tier at the backup, and charged from there after it
	w.provider.script(waiting, refuses(503, "unavailable"))
	w.produce(waiting)
	w.awaitOne(w.tiers[0], waiting)
	i.stop()
	require.NotEqual(t, "succeeded", w.row(waiting).State)
	backup := w.db.Copy(t)

	i = w.start()
	after := w.newOrders(10)
	w.provider.script(after[0], refuses(503, "unavailable")) // through a tier
	declined := w.newOrder()
	w.provider.script(declined, refuses(402, "insufficient_funds"), refuses(402, "insufficient_funds"))
	w.produce(append(after, declined)...)
	w.awaitCharged(append(after, waiting)...)
	w.awaitState(declined, "declined")
	w.settled()
	i.stop()
	events := len(w.tail.of(results, after[1].id.String()))

	w.db = backup
	w.settings["BILLING_DATABASE_URL"] = backup.URL
	require.Zero(t, w.charged(append(after, waiting)), "forgotten")
	i = w.start()
	w.awaitCharged(append(after, waiting)...)
	w.awaitState(declined, "declined")
	require.NotNil(t, i.log.find("the database knows of fewer records than the group has committed, as one does that was restored, or another program has committed: reading begins where it ends"))
	w.chargedOnce(append(append(after, waiting), before...)...)
	require.Empty(t, w.provider.chargesOf(declined))
	for _, o := range after {
		require.GreaterOrEqual(t, w.provider.lookupsOf(o), 1, "asked before anything is sent")
	}
	w.await(func() bool { return w.balance().Taken == int64(w.kafka.Count(w.main)) }, "every record is taken again")
	w.settled()
	w.await(func() bool { return len(w.tail.of(results, after[1].id.String())) > events }, "the event is told again")
	i.stop()
	i = w.start() // and once is enough
	i.awaitReady()
	require.Nil(t, i.log.find("the database knows of fewer records than the group has committed, as one does that was restored, or another program has committed: reading begins where it ends"))
}

// An empty database under a group that was there before, and the ways out that the refusal names.
func TestEmptyDatabaseUnderAnOldGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.newOrders(6)
	i := w.start()
	w.produce(old...)
	w.awaitCharged(old...)
	w.settled()
	i.stop()

	w.db = testkit.Postgres(t)
	w.settings["BILLING_DATABASE_URL"] = w.db.URL
	for range 2 { // a refusal leaves nothing behind
		w.refusesToStart(nil, 1, "the database is empty", w.group, "Restore", "billing topics accept-offsets", "--to-earliest")
	}
	require.Zero(t, w.count(`SELECT count(*) FROM installation`))

	w.mustRun("topics", "accept-offsets")
	i = w.start()
	fresh := w.newOrder()
	w.produce(fresh)
	w.awaitCharged(fresh)
	w.chargedOnce(fresh)
	require.Zero(t, w.charged(old), "taken as settled")
	w.even()
	i.stop()

	w.db = testkit.Postgres(t) // and the other way: everything again
	w.settings["BILLING_DATABASE_URL"] = w.db.URL
	_, err := w.kafka.Admin.CommitOffsets(t.Context(), w.group, wholeTopic(w.main, 3, 0))
	require.NoError(t, err)
	w.start()
	w.awaitCharged(append(old, fresh)...)
	w.chargedOnce(append(old, fresh)...)
}
