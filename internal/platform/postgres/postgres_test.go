package postgres

import (
	"context"
	"io/fs"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/testkit"
	"example.com/billing/migrations"
)

func TestOpenLimitsEverySession(t *testing.T) {
	u := testkit.Postgres(t).URL
	pool, err := Open(t.Context(), Config{URL: withParam(t, u, "lock_timeout", "123ms"), MaxConns: 3})
	require.NoError(t, err)
	defer pool.Close()
	require.EqualValues(t, 3, pool.Config().MaxConns)
	for setting, want := range map[string]string{
		"lock_timeout":      "123ms", // the URL's own word holds
		"statement_timeout": "5s", "idle_in_transaction_session_timeout": "5s",
		"application_name": "billing", "plan_cache_mode": "force_custom_plan", "synchronous_commit": "on",
	} {
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_setting($1)`, setting).Scan(&got))
		require.Equal(t, want, got, setting)
	}
}

func TestOpenRefusesAReplica(t *testing.T) {
	u := withParam(t, testkit.Postgres(t).URL, "default_transaction_read_only", "on")
	_, err := Open(t.Context(), Config{URL: u, MaxConns: 1})
	require.ErrorIs(t, err, pgconn.ErrReadOnlyConnection)
	pool, err := Open(t.Context(), Config{URL: withParam(t, u, "target_session_attrs", "any"), MaxConns: 1})
	require.NoError(t, err, "unless the URL says otherwise")
	pool.Close()
}

func TestOpenRefusesBadSettings(t *testing.T) {
	_, err := Open(t.Context(), Config{URL: "postgres://u:s3cret@host:port/db", MaxConns: 1})
	require.ErrorContains(t, err, "cannot be parsed")
	require.NotContains(t, err.Error(), "s3cret")
	_, err = Open(t.Context(), Config{URL: "postgres://127.0.0.1:1/db", MaxConns: 0})
	require.ErrorContains(t, err, "MaxConns")
	_, err = Open(t.Context(), Config{URL: "postgres://u:s3cret@127.0.0.1:1/db", MaxConns: 1})
	require.ErrorContains(t, err, "open database")
	require.NotContains(t, err.Error(), "s3cret")
}

// TestTwoMigrateAtOnce: each migration is applied by one of them, and neither fails.
func TestTwoMigrateAtOnce(t *testing.T) {
	u := emptyDatabase(t)
	all, err := Status(t.Context(), u, migrations.Files)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, m := range all {
		require.Zero(t, m.AppliedAt)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	applied := map[int64]int{}
	for range 3 {
		wg.Go(func() {
			done, err := Migrate(context.Background(), u, migrations.Files)
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			for _, m := range done {
				applied[m.Version]++
			}
		})
	}
	wg.Wait()
	require.Len(t, applied, len(all))
	for v, n := range applied {
		require.Equal(t, 1, n, "migration %d", v)
	}
	all, err = Status(t.Context(), u, migrations.Files)
	require.NoError(t, err)
	for _, m := range all {
		require.NotZero(t, m.AppliedAt, m.File)
	}
}

func TestCheckSchema(t *testing.T) {
	u := emptyDatabase(t)
	pool, err := Open(t.Context(), Config{URL: u, MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	var log strings.Builder
	check := func(files fs.FS) error {
		return CheckSchema(t.Context(), pool, files, slog.New(slog.NewTextHandler(&log, nil)))
	}
	require.ErrorContains(t, check(migrations.Files), "`billing migrate up`", "never migrated")

	one := fstest.MapFS{"00001_a.sql": {Data: []byte("-- +goose Up\nSELECT 1;\n")}}
	two := fstest.MapFS{"00001_a.sql": one["00001_a.sql"], "00002_b.sql": {Data: []byte("-- +goose Up\nSELECT 1;\n")}}
	_, err = Migrate(t.Context(), u, one)
	require.NoError(t, err)
	require.NoError(t, check(one))
	require.ErrorContains(t, check(two), "`billing migrate up`", "behind")
	_, err = Migrate(t.Context(), u, two)
	require.NoError(t, err)
	require.NoError(t, check(two))
	require.Empty(t, log.String())
	require.NoError(t, check(one), "an older release beside a newer schema: a rolling deploy, or a roll-back")
	require.Contains(t, log.String(), "a newer release has migrated the database")
	require.ErrorContains(t, check(fstest.MapFS{}), "no migrations")
}

func TestFailedMigrationSaysWhich(t *testing.T) {
	bad := fstest.MapFS{"00001_bad.sql": {Data: []byte("-- +goose Up\nSELECT FROM nowhere;\n")}}
	_, err := Migrate(t.Context(), emptyDatabase(t), bad)
	require.ErrorContains(t, err, "version:1")
	_, err = Migrate(t.Context(), "postgres://u:s3cret@host:port/db", bad)
	require.ErrorContains(t, err, "cannot be parsed")
	require.NotContains(t, err.Error(), "s3cret")
}

// emptyDatabase is one without the schema, beside the test's own.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	db := testkit.Postgres(t)
	name := db.Pool.Config().ConnConfig.Database + "_empty"
	_, err := db.Pool.Exec(t.Context(), `CREATE DATABASE `+pgx.Identifier{name}.Sanitize())
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := db.Pool.Exec(context.Background(), `DROP DATABASE `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`)
		require.NoError(t, err)
	})
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

func withParam(t *testing.T, address, key, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // the driver takes a + as it is
	return u.String()
}
