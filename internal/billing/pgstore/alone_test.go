package pgstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStartsInARowAndLonelyRecords(t *testing.T) { // H15
	s := newFixture(t)
	start := func(partition int32, committed int64) int {
		n, err := s.Started(t.Context(), "orders", partition, committed)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, []int{1, 2, 3}, []int{start(0, 7), start(0, 7), start(0, 7)})
	require.Equal(t, 1, start(1, 7), "each partition counts for itself")
	require.NoError(t, s.EndedWell(t.Context(), "orders", map[int32]int64{0: 7, 5: 1}))
	require.Equal(t, 3, start(0, 7), "a good end takes back its own start, not the crashes before (hazard H33)")
	require.NoError(t, s.EndedWell(t.Context(), "orders", map[int32]int64{0: 6, 1: 8}))
	require.Equal(t, []int{4, 2}, []int{start(0, 7), start(1, 7)}, "only what began there")
	require.Equal(t, 1, start(0, 8), "progress ends the row")
	for range 3 {
		require.NoError(t, s.EndedWell(t.Context(), "orders", map[int32]int64{0: 8}))
	}
	require.Equal(t, 1, start(0, 8))

	begin := func(offset int64) int {
		n, err := s.BeginAlone(t.Context(), "orders", 0, offset)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, []int{1, 2}, []int{begin(8), begin(8)})
	require.Equal(t, 1, begin(9), "another record")
	require.NoError(t, s.EndAlone(t.Context(), "orders", 0, 9, true))
	require.Equal(t, 1, begin(9), "it was outlived")
	require.Equal(t, 2, begin(9))
	require.NoError(t, s.EndAlone(t.Context(), "orders", 0, 9, false))
	require.Equal(t, 2, begin(9), "it waited: only that try is taken back")
	require.Equal(t, 3, begin(8), "the others are not forgotten meanwhile")
}
