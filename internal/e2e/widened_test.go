package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A column is widened while the service runs, by a later release or by hand: sessions that have been used enough keep a
// trigger's plan of before, and fail with 42804 for ever (jackc/pgx#927). New sessions cure it by themselves.
func TestAWidenedColumnIsPlannedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for range 20 {
		warm := w.newOrders(100)
		w.produce(warm...)
		w.awaitCharged(warm...)
	}
	_, err := w.db.Pool.Exec(t.Context(), `ALTER TABLE charges ALTER COLUMN attempts TYPE bigint`)
	require.NoError(t, err)
	orders := w.newOrders(50)
	w.produce(orders...)
	w.awaitCharged(orders...)
	w.settled()
	w.chargedOnce(orders...)
}
