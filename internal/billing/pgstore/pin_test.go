package pgstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// H30: a second topic or cluster on the same database is refused, also where an older release has pinned neither.
func TestPinHoldsTopicAndCluster(t *testing.T) {
	f := newFixture(t)
	old := Installation{Environment: "prod", Account: "default", Group: "billing"}
	require.NoError(t, f.CheckPin(t.Context(), old), "nothing is pinned yet")
	require.NoError(t, f.Pin(t.Context(), old))
	full := old
	full.Topic, full.Cluster = "orders.confirmed", "cluster-1"
	stranger := full
	stranger.Environment = "staging"
	require.Error(t, f.Pin(t.Context(), stranger))
	stored, err := f.Installation(t.Context())
	require.NoError(t, err)
	require.Equal(t, old, stored, "one that is refused writes nothing")

	require.NoError(t, f.Pin(t.Context(), full), "filled at the first start")
	require.NoError(t, f.Pin(t.Context(), full))
	require.NoError(t, f.Pin(t.Context(), old), "a command that knows no topics")
	topic, cluster := full, full
	topic.Topic, cluster.Cluster = "orders.other", "cluster-2"
	for _, c := range []struct {
		given Installation
		says  []string
	}{
		{topic, []string{"BILLING_TOPIC", `"orders.other"`, `"orders.confirmed"`, "billing topics accept"}},
		{cluster, []string{"BILLING_KAFKA_BROKERS", `"cluster-2"`, `"cluster-1"`, "billing topics accept"}},
	} {
		err := f.Pin(t.Context(), c.given)
		for _, text := range c.says {
			require.ErrorContains(t, err, text)
		}
	}
	require.NoError(t, f.Pin(t.Context(), full), "nothing was changed")
	require.NoError(t, f.Move(t.Context(), "orders.other", "cluster-1"))
	require.NoError(t, f.Pin(t.Context(), topic))
}
