package rig

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestDatabaseFaults(t *testing.T) {
	dir, err := TempDir("billing-rig-")
	require.NoError(t, err)
	d, err := StartDatabase(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	ctx := t.Context()
	rows := func() (n int) {
		conn, err := pgx.Connect(ctx, d.URL)
		require.NoError(t, err)
		defer conn.Close(ctx)
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM a").Scan(&n))
		return n
	}
	require.NoError(t, d.Exec(ctx, "CREATE TABLE a (n integer); CREATE TABLE b (n integer)"))
	require.NoError(t, d.SetTraps(ctx, []string{"a"}))
	require.NoError(t, d.Exec(ctx, "INSERT INTO a VALUES (1)"))

	require.NoError(t, d.Trap(ctx, "RAISE EXCEPTION 'no' USING ERRCODE = '55000';"))
	var refused *pgconn.PgError
	require.ErrorAs(t, d.Exec(ctx, "INSERT INTO a VALUES (2)"), &refused)
	require.Equal(t, "55000", refused.Code)
	require.NoError(t, d.Exec(ctx, "INSERT INTO b VALUES (2)"))
	require.NoError(t, d.Trap(ctx, ""))

	release, err := d.LockRows(ctx, "SELECT 1 FROM a FOR UPDATE")
	require.NoError(t, err)
	require.ErrorAs(t, d.Exec(ctx, "SELECT 1 FROM a FOR UPDATE NOWAIT"), &refused)
	require.Equal(t, "55P03", refused.Code)
	require.NoError(t, release())
	require.NoError(t, d.Exec(ctx, "SELECT 1 FROM a FOR UPDATE"))

	require.NoError(t, d.ReadOnly(ctx, true))
	release, err = d.LockRows(ctx, "SELECT 1 FROM a FOR UPDATE")
	require.NoError(t, err)
	require.NoError(t, release())
	require.NoError(t, d.ReadOnly(ctx, false))

	for range 2 { // again, too
		before := rows()
		require.NoError(t, d.Snapshot(ctx))
		require.NoError(t, d.Exec(ctx, "INSERT INTO a VALUES (3)"))
		require.Equal(t, before+1, rows())
		require.NoError(t, d.Restore(ctx))
		require.Equal(t, before, rows())
	}
}
