package main

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/testkit"
)

// runTopics runs `billing topics …` against the cluster.
func runTopics(t *testing.T, k *testkit.Cluster, args string) (out string, code int) {
	t.Helper()
	t.Setenv("BILLING_KAFKA_BROKERS", k.Brokers)
	var text strings.Builder
	root := newRootCommand()
	root.SetArgs(append([]string{"topics"}, strings.Fields(args)...))
	root.SetOut(&text)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		t.Log(err)
	}
	return text.String(), exitCode(err)
}

func TestPartitionsOfThePlan(t *testing.T) {
	const main, tier, dlq = "orders.confirmed", "orders.confirmed.retry-5s", "orders.confirmed.dlq"
	three := map[string]int32{main: 3, tier: 3, "orders.confirmed.retry-30s": 3, "orders.confirmed.retry-5m": 3, dlq: 3, resultTopic: 3}
	with := func(name string, parts int32) map[string]int32 {
		other := map[string]int32{name: parts}
		for n, p := range three {
			if n != name {
				other[n] = p
			}
		}
		return other
	}
	for name, c := range map[string]struct {
		existing map[string]int32
		args     string
		code     int
		says     string
	}{
		"nothing is there":                         {nil, "plan", exitDifferences, "create orders.confirmed: 6 partitions"},
		"nothing is there, asked for":              {nil, "plan --partitions 12", exitDifferences, "create orders.confirmed.dlq: 12 partitions"},
		"the main topic is its owner's":            {map[string]int32{main: 3}, "plan", exitDifferences, "create orders.confirmed.dlq: 3 partitions"},
		"fewer than the default are no difference": {three, "plan", 0, "as wanted"},
		"fewer than asked for":                     {three, "plan --partitions 4", exitDifferences, "differs orders.confirmed: 3 partitions, want 4"},
		"more than asked for":                      {three, "plan --partitions 2", 0, "as wanted"},
		"a tier with fewer than the main topic":    {with(tier, 1), "plan", exitDifferences, "differs " + tier + ": 1 partitions, want 3"},
		"dead letters with more":                   {with(dlq, 4), "plan", 0, "as wanted"},
		"results of any number":                    {with(resultTopic, 1), "plan", 0, "as wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			k := testkit.FakeKafka(t)
			for topic, parts := range c.existing {
				require.NoError(t, k.Fake().CreateTopic(topic, parts, map[string]string{"retention.ms": "-1", "max.message.bytes": strconv.Itoa(2 << 20)}))
			}
			out, code := runTopics(t, k, c.args)
			require.Equal(t, c.code, code, out)
			require.Contains(t, out, c.says)
		})
	}
}

// After a topic was created, brokers may say for a while that they do not know it. `topics apply` returns when they do: the
// service, started next, would not find it (torture, seed 4002).
func TestApplyWaitsUntilTheBrokersKnow(t *testing.T) {
	k := testkit.FakeKafka(t)
	const topic = "orders.confirmed.retry-5s"
	var created atomic.Bool
	fake := k.Fake()
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: topic, Observe: true, Count: -1, When: func(kmsg.Request) bool { created.Store(true); return true }})
	later := func(kmsg.Request) bool { return created.Load() }
	configs := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: topic, Err: kerr.UnknownTopicOrPartition, Count: 3, When: later})
	metadata := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata, kmsg.DescribeTopicPartitions}, Topic: topic, Err: kerr.UnknownTopicOrPartition, Count: 15, When: later})
	out, code := runTopics(t, k, "apply")
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "6 created")
	require.Equal(t, 15, metadata.Hits(), "it has asked until it was told")
	require.Equal(t, 3, configs.Hits())
	out, code = runTopics(t, k, "plan")
	require.Equal(t, 0, code, out)
}
