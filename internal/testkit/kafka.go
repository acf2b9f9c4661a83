package testkit

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/broker"
)

// Cluster is the Kafka of one test: a broker of its own, or its own names on a real one.
type Cluster struct {
	Brokers string // for bootstrap.servers
	Client  *kgo.Client
	Admin   *kadm.Client

	t      testing.TB
	prefix string // of every topic and group on a shared cluster
	dir    string
	broker *broker.Broker // nil on a real one
}

// Kafka gives the test an embedded broker, or its own names on the cluster of BILLING_TEST_KAFKA_BROKERS.
func Kafka(t testing.TB) *Cluster {
	t.Helper()
	NeedsServer(t)
	brokers := os.Getenv("BILLING_TEST_KAFKA_BROKERS")
	if brokers == "" {
		return FakeKafka(t)
	}
	c := &Cluster{t: t, Brokers: brokers, prefix: "t" + strings.ToLower(rand.Text()[:8]) + "."}
	c.connect()
	t.Cleanup(c.removeAll)
	return c
}

// FakeKafka gives the test an embedded broker in any case: for faults that a real one cannot be asked for.
func FakeKafka(t testing.TB) *Cluster {
	t.Helper()
	NeedsServer(t)
	c := &Cluster{t: t, dir: t.TempDir()}
	c.start(0)
	c.connect()
	return c
}

// Name makes the name of a topic or group that no other test uses. The topics and groups that follow from it, such as
// its retry topics, are the test's own, too.
func (c *Cluster) Name(base string) string { return c.prefix + base }

// Fake injects faults. Only a FakeKafka has it.
func (c *Cluster) Fake() *kfake.Cluster {
	c.t.Helper()
	require.NotNil(c.t, c.broker, "faults need FakeKafka")
	return c.broker.Fake
}

// Down stops the broker; Up brings it back at the same address with all that it had.
func (c *Cluster) Down() { c.Fake().Close() }

// Up is the way back from Down.
func (c *Cluster) Up() {
	c.t.Helper()
	_, port, err := net.SplitHostPort(c.Brokers)
	require.NoError(c.t, err)
	number, err := strconv.Atoi(port)
	require.NoError(c.t, err)
	c.start(number)
}

func (c *Cluster) start(port int) {
	c.t.Helper()
	started, err := broker.Start(c.dir, port)
	require.NoError(c.t, err)
	c.t.Cleanup(started.Close)
	c.broker, c.Brokers = started, started.Addr
}

func (c *Cluster) connect() {
	c.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.Brokers, ",")...), kgo.UnknownTopicRetries(-1),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(20*time.Millisecond))
	require.NoError(c.t, err)
	c.t.Cleanup(client.Close)
	c.Client, c.Admin = client, kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	require.NoError(c.t, client.Ping(ctx), "no Kafka to test with")
}

// removeAll leaves a real cluster as it was found. What is still in use by a consumer that is about to leave may stay.
func (c *Cluster) removeAll() {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	topics, err := c.Admin.ListTopics(ctx)
	require.NoError(c.t, err)
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, c.prefix) {
			_, _ = c.Admin.DeleteTopic(ctx, name)
		}
	}
	groups, err := c.Admin.ListGroups(ctx)
	require.NoError(c.t, err)
	for _, name := range groups.Groups() {
		if strings.HasPrefix(name, c.prefix) {
			_, _ = c.Admin.DeleteGroup(ctx, name)
		}
	}
}
