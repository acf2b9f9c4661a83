package kafkaclient

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExtraRefusesWhatWouldBreakAPromise(t *testing.T) {
	extra, err := ParseExtra("group.instance.id=billing-0, client.rack=a,sasl.oauthbearer.config=a=b,max.poll.interval.ms=10000,")
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"group.instance.id": "billing-0", "client.rack": "a", "sasl.oauthbearer.config": "a=b", "max.poll.interval.ms": "10000",
	}, extra)
	for property := range promises {
		_, err := ParseExtra("client.rack=a," + property + "=1")
		require.ErrorContains(t, err, property+" cannot be set: ")
	}
	for _, wrong := range []string{"go.events.channel.enable=true", "max.poll.interval.ms=9999", "max.poll.interval.ms=soon", "client.rack", "=a"} {
		_, err := ParseExtra(wrong)
		require.Error(t, err, wrong)
	}
}

// An extra wins over our own value: sessions and fetches may be tuned.
func TestExtraComesLast(t *testing.T) {
	c := Config{Extra: map[string]string{"session.timeout.ms": "45000"}}
	require.Equal(t, "45000", (*c.consumerConfig("g"))["session.timeout.ms"])
}
