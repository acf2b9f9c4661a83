package main

import (
	"maps"
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
				createTopic(t, k, topic, parts, nil)
			}
			out, code := runTopics(t, k, c.args)
			require.Equal(t, c.code, code, out)
			require.Contains(t, out, c.says)
		})
	}
}

// createTopic makes a topic as it is wanted but for the changes.
func createTopic(t *testing.T, k *testkit.Cluster, name string, parts int32, changes map[string]string) {
	t.Helper()
	config := map[string]string{"retention.ms": "-1", "max.message.bytes": strconv.Itoa(2 << 20)}
	if name == "orders.confirmed" {
		delete(config, "max.message.bytes")
	}
	maps.Copy(config, changes)
	require.NoError(t, k.Fake().CreateTopic(name, parts, config))
}

// H29, H14: a topic that loses orders by its own settings is named, and what it should have.
func TestConfigurationOfThePlan(t *testing.T) {
	const main, tier, dlq = "orders.confirmed", "orders.confirmed.retry-5m", "orders.confirmed.dlq"
	hours := func(n int) string { return strconv.Itoa(n * 3600_000) }
	for name, c := range map[string]struct {
		topic, entry, value string
		says                string // empty: as wanted
	}{
		"shorter than the longest outage":       {main, "retention.ms", hours(71), "differs " + main + ": retention.ms 255600000, want 259200000"},
		"the longest outage":                    {main, "retention.ms", hours(72), ""},
		"shorter than the delay and the outage": {tier, "retention.ms", hours(72), "differs " + tier + ": retention.ms 259200000, want 259500000"},
		"longer than the delay and the outage":  {tier, "retention.ms", hours(73), ""},
		"dead letters are kept for ever":        {dlq, "retention.ms", hours(9999), "differs " + dlq + ": retention.ms 35996400000, want -1"},
		"a limit of the size":                   {tier, "retention.bytes", "1000000000", "differs " + tier + ": retention.bytes 1000000000 would drop orders"},
		"compacted":                             {main, "cleanup.policy", "compact,delete", "cleanup.policy compact,delete would drop orders"},
		"an unclean election":                   {main, "unclean.leader.election.enable", "true", "unclean.leader.election.enable true"},
		"larger messages than the tiers take":   {main, "max.message.bytes", "3000000", "differs " + tier + ": max.message.bytes 2097152, want 3065536"},
	} {
		t.Run(name, func(t *testing.T) {
			k := testkit.FakeKafka(t)
			for _, topic := range []string{main, "orders.confirmed.retry-5s", "orders.confirmed.retry-30s", tier, dlq, resultTopic} {
				var changes map[string]string
				if topic == c.topic {
					changes = map[string]string{c.entry: c.value}
				}
				createTopic(t, k, topic, 3, changes)
			}
			out, code := runTopics(t, k, "plan")
			if c.says == "" {
				require.Equal(t, 0, code, out)
				return
			}
			require.Equal(t, exitDifferences, code, out)
			require.Contains(t, out, c.says)
		})
	}
}

// H29: what is created outlasts its delay and the longest outage, and a week at least.
func TestApplyCreatesWithTheRetentionThatIsWanted(t *testing.T) {
	k := testkit.FakeKafka(t)
	t.Setenv("BILLING_RETRY_DELAYS", "1s,240h")
	t.Setenv("BILLING_LONGEST_OUTAGE", "100h")
	out, code := runTopics(t, k, "apply")
	require.Equal(t, 0, code, out)
	configs, err := k.Admin.DescribeTopicConfigs(t.Context(), "orders.confirmed", "orders.confirmed.retry-1s", "orders.confirmed.retry-240h", "orders.confirmed.dlq")
	require.NoError(t, err)
	got := map[string]string{}
	for _, topic := range configs {
		for _, c := range topic.Configs {
			if c.Key == "retention.ms" {
				got[topic.Name] = c.MaybeValue()
			}
		}
	}
	require.Equal(t, map[string]string{
		"orders.confirmed": "604800000", "orders.confirmed.retry-1s": "604800000", "orders.confirmed.retry-240h": "1224000000", "orders.confirmed.dlq": "-1",
	}, got)
	out, code = runTopics(t, k, "plan")
	require.Equal(t, 0, code, out)
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
