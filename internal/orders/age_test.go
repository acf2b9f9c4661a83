package orders

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/retry"
)

func TestATimeInSecondsIsNamed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	meant, ok := InSeconds(time.UnixMilli(now.Unix()), now)
	require.True(t, ok)
	require.True(t, meant.Equal(now))
	for _, at := range []time.Time{now, now.Add(-50 * 365 * 24 * time.Hour), time.UnixMilli(0), time.UnixMilli(-1), {}, time.Unix(now.UnixMicro(), 0)} {
		_, ok := InSeconds(at, now)
		require.False(t, ok, at)
	}

	k := &till{envelope: retry.Envelope{OriginTime: time.UnixMilli(time.Now().Unix())}}
	require.NoError(t, k.process(t, someEvent))
	require.ErrorContains(t, k.routed[0].Err, "read as seconds instead of milliseconds that is 20")
}
