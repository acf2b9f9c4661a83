package postgres

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/testkit"
)

// Where the account, the database or the options of the URL say otherwise, a commit is on the disk before it is answered.
func TestOpenCommitsToTheDisk(t *testing.T) {
	db := testkit.Postgres(t)
	name := db.Pool.Config().ConnConfig.Database
	for _, set := range []string{"synchronous_commit = off", "default_transaction_isolation = 'serializable'"} {
		_, err := db.Pool.Exec(t.Context(), "ALTER DATABASE "+name+" SET "+set)
		require.NoError(t, err)
		_, err = db.Pool.Exec(t.Context(), "ALTER ROLE CURRENT_USER IN DATABASE "+name+" SET "+set)
		require.NoError(t, err)
	}
	address := withParam(t, db.URL, "options", "-c synchronous_commit=off -c default_transaction_isolation=serializable -c statement_timeout=0")
	pool, err := Open(t.Context(), Config{URL: address, MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	for setting, want := range map[string]string{"synchronous_commit": "on", "transaction_isolation": "read committed", "statement_timeout": "5s"} {
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_setting($1)`, setting).Scan(&got))
		require.Equal(t, want, got, setting)
	}
}

// What the URL itself asks for is not overruled in silence.
func TestOpenRefusesSessionsThatForget(t *testing.T) {
	good := testkit.Postgres(t).URL
	for name, c := range map[string]struct{ address, want string }{
		"commits are not waited for":    {withParam(t, good, "synchronous_commit", "off"), "synchronous_commit=off: a crash"},
		"the same in other words":       {withParam(t, good, "Synchronous_Commit", "false"), "synchronous_commit=off: a crash"},
		"another isolation":             {withParam(t, good, "default_transaction_isolation", "repeatable read"), "default_transaction_isolation=repeatable read: "},
		"triggers of the URL's options": {withParam(t, good, "options", "-c session_replication_role=replica"), "session_replication_role=replica: triggers"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), Config{URL: c.address, MaxConns: 1})
			require.ErrorContains(t, err, c.want)
		})
	}
	for _, kept := range []string{"local", "remote_write", "remote_apply"} { // the server's own disk has it in each
		pool, err := Open(t.Context(), Config{URL: withParam(t, good, "synchronous_commit", kept), MaxConns: 1})
		require.NoError(t, err, kept)
		pool.Close()
	}
}

func TestOpenRefusesAnAccountWithoutTriggers(t *testing.T) {
	db := testkit.Postgres(t)
	_, err := db.Pool.Exec(t.Context(), "ALTER ROLE CURRENT_USER IN DATABASE "+db.Pool.Config().ConnConfig.Database+" SET session_replication_role = replica")
	require.NoError(t, err)
	_, err = Open(t.Context(), Config{URL: db.URL, MaxConns: 1})
	require.ErrorContains(t, err, "RESET session_replication_role")
}

func TestAServerThatDoesNotSyncIsTold(t *testing.T) {
	var log strings.Builder
	db := testkit.Postgres(t)
	var fsync string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SHOW fsync`).Scan(&fsync))
	require.NoError(t, WarnUnsynced(t.Context(), db.Pool, slog.New(slog.NewTextHandler(&log, nil))))
	require.Equal(t, fsync == "off", strings.Contains(log.String(), "fsync=off"), log.String())
}
