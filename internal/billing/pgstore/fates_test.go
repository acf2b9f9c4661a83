package pgstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// TestLateFateDoesNotReplaceANewerOne: a frozen handler wakes up and writes that the record waits, after another instance has
// brought it further. An older release beside this one writes no step.
func TestLateFateDoesNotReplaceANewerOne(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	write := func(kind string, step int64) string {
		t.Helper()
		require.NoError(t, f.RecordFate(t.Context(), Fate{Origin: o.Origin, OrderID: o.ID, Kind: kind, Reason: failure.Provider5xx, Step: step}))
		var fate string
		require.NoError(t, f.other.QueryRow(t.Context(), `SELECT fate FROM record_fates WHERE "offset" = $1`, o.Origin.Offset).Scan(&fate))
		return fate
	}
	require.Equal(t, "waiting", write("waiting", 10))
	require.Equal(t, "waiting", write("waiting", 20), "it failed again")
	require.Equal(t, "dead", write("dead", 31))
	require.Equal(t, "dead", write("waiting", 10), "late")
	require.Equal(t, "dead", write("waiting", 30), "late: another instance judged the same step")
	_, err := f.other.Exec(t.Context(), `UPDATE record_fates SET fate = 'waiting'`) // a person replays it, or an older release writes
	require.NoError(t, err)
	require.Equal(t, "waiting", write("waiting", 100), "the replay fails")
	require.Equal(t, "duplicate", write("duplicate", 5), "what has ended has ended")
	_, err = f.other.Exec(t.Context(), `UPDATE record_fates SET step = 0`)
	require.NoError(t, err)
	require.Equal(t, "waiting", write("waiting", 0))
}
