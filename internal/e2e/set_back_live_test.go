package e2e

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/testkit"
)

// The database is set back under an instance that runs, as a failover to a replica that lags does. The instance notices that
// it has counted more than the database knows, and ends; the next start reads what was forgotten, and asks the provider
// before it sends (H27).
func TestDatabaseSetBackUnderARunningInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	before := w.newOrders(9)
	w.produce(before...)
	w.awaitCharged(before...)
	w.settled()
	name := w.db.Pool.Config().ConnConfig.Database
	config := w.db.Pool.Config().ConnConfig.Copy()
	config.Database = "postgres"
	admin, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(t.Context())) }()
	force := func(sql string) { // the instance connects again at any moment
		w.await(func() bool {
			_, _ = admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE datname = '"+name+"'")
			_, err := admin.Exec(t.Context(), sql)
			return err == nil
		}, "%s", sql)
	}
	force(fmt.Sprintf("CREATE DATABASE %s_snap TEMPLATE %s", name, name))
	w.db.Pool.Reset()
	forgotten := w.newOrders(9)
	w.produce(forgotten...)
	w.awaitCharged(forgotten...)
	w.settled()
	force("DROP DATABASE " + name + " WITH (FORCE)")
	force(fmt.Sprintf("ALTER DATABASE %s_snap RENAME TO %s", name, name))
	w.db.Pool.Reset()

	i.ended = true // by itself, and not in order
	after := w.newOrders(9)
	w.produce(after...)
	testkit.Receive(t, i.exited, "it notices and ends")
	require.Equal(t, 1, i.cmd.ProcessState.ExitCode())
	require.Contains(t, i.log.text(), "the database was set back while the service ran")

	w.start()
	w.awaitCharged(forgotten...)
	w.awaitCharged(after...)
	w.settled()
	for _, o := range append(forgotten, after...) {
		require.Len(t, w.provider.chargesOf(o), 1)
	}
	for _, o := range forgotten {
		require.Positive(t, w.provider.lookupsOf(o), "asked before it is sent")
	}
}
