package pgstore

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestUnpin(t *testing.T) {
	f := newFixture(t)
	var traced string
	trace := func(_ context.Context, _ pgx.Tx, pinned []byte) error { traced = string(pinned); return nil }
	require.ErrorIs(t, f.Unpin(t.Context(), trace), ErrNotPinned)

	wrong := Installation{Environment: "prodution", Account: "default", Group: "billing"}
	right := Installation{Environment: "production", Account: "default", Group: "billing"}
	require.NoError(t, f.CheckPin(t.Context(), wrong), "nothing is pinned, and looking pins nothing")
	require.Zero(t, f.count(t, `SELECT count(*) FROM installation`))
	require.NoError(t, f.Pin(t.Context(), wrong))
	require.ErrorContains(t, f.CheckPin(t.Context(), right), "billing config unpin")
	require.ErrorContains(t, f.Pin(t.Context(), right), "billing config unpin")

	// A trace that fails leaves all as it was.
	require.ErrorContains(t, f.Unpin(t.Context(), func(context.Context, pgx.Tx, []byte) error { return errors.New("no trace") }), "no trace")
	require.ErrorContains(t, f.Pin(t.Context(), right), "BILLING_ENVIRONMENT")

	_, err := f.pool.Exec(t.Context(), `INSERT INTO instances (id) VALUES (gen_random_uuid())`)
	require.NoError(t, err)
	require.ErrorIs(t, f.Unpin(t.Context(), trace), ErrInUse)
	_, err = f.pool.Exec(t.Context(), `UPDATE instances SET updated_at = now() - interval '1 minute'`)
	require.NoError(t, err)

	require.NoError(t, f.Unpin(t.Context(), trace))
	require.Contains(t, traced, `"environment": "prodution"`)
	require.NoError(t, f.Pin(t.Context(), right))

	f.mustClaim(t, f.order())
	require.ErrorIs(t, f.Unpin(t.Context(), trace), ErrOrdersExist)
	require.NoError(t, f.Pin(t.Context(), right), "still pinned")
}
