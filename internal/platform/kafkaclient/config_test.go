package kafkaclient_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/platform/kafkaclient"
)

func TestParseExtra(t *testing.T) {
	extra, err := kafkaclient.ParseExtra("fetch.min.bytes=1, max.poll.interval.ms=10000")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"fetch.min.bytes": "1", "max.poll.interval.ms": "10000"}, extra)
	for _, refused := range []string{"acks=1", "enable.auto.offset.store=true", "enable.partition.eof=false", "max.poll.interval.ms=9999", "max.poll.interval.ms=soon", "nothing"} {
		_, err := kafkaclient.ParseExtra(refused)
		require.Error(t, err, refused)
	}
}
