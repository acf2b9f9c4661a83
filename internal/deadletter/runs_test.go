package deadletter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOffsetsFarApartAreReadInRounds(t *testing.T) {
	require.Empty(t, intoRounds(nil))
	require.Equal(t, []map[int32]run{
		{0: {1, 2, maxGap + 2}, 3: {7}},
		{0: {2*maxGap + 3}},
	}, intoRounds(map[int32][]int64{0: {2, 2*maxGap + 3, 1, maxGap + 2, 1}, 3: {7}}))
}
