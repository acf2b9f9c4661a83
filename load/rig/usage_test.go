package rig

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUsageIsRead(t *testing.T) {
	before, err := UsageOf(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, before.RSS)
	require.GreaterOrEqual(t, before.Peak, before.RSS)
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; { // busy: it is processor time that is read
	}
	after, err := UsageOf(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, after.CPU, before.CPU)
	_, err = UsageOf(1 << 30)
	require.Error(t, err)
}
