package broker_test

import (
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/broker"
)

func TestBrokerKeepsRecordsAndOffsets(t *testing.T) {
	dir := t.TempDir()
	first, err := broker.Start(dir, 0)
	require.NoError(t, err)
	client := connect(t, first)
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(t.Context(), 2, 1, nil, "orders")
	require.NoError(t, err)
	record := kgo.Record{Topic: "orders", Key: []byte("k"), Value: []byte("v")}
	require.NoError(t, client.ProduceSync(t.Context(), &record).FirstErr())
	offsets := kadm.Offsets{}
	offsets.AddOffset("orders", record.Partition, 1, -1)
	require.NoError(t, admin.CommitAllOffsets(t.Context(), "group", offsets))
	first.Close()

	_, port, err := net.SplitHostPort(first.Addr)
	require.NoError(t, err)
	second, err := broker.Start(dir, atoi(t, port))
	require.NoError(t, err)
	defer second.Close()
	require.Equal(t, first.Addr, second.Addr)

	ends, err := admin.ListEndOffsets(t.Context(), "orders")
	require.NoError(t, err)
	end, _ := ends.Lookup("orders", record.Partition)
	require.EqualValues(t, 1, end.Offset)
	committed, err := admin.FetchOffsets(t.Context(), "group")
	require.NoError(t, err)
	at, ok := committed.Lookup("orders", record.Partition)
	require.True(t, ok)
	require.EqualValues(t, 1, at.At)
}

func TestTopicsAreNotCreatedByAccident(t *testing.T) {
	b, err := broker.Start(t.TempDir(), 0)
	require.NoError(t, err)
	defer b.Close()

	err = connect(t, b).ProduceSync(t.Context(), &kgo.Record{Topic: "missing", Value: []byte("v")}).FirstErr()
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
}

func TestStartRefusals(t *testing.T) {
	_, err := broker.Start("", 0)
	require.ErrorContains(t, err, "directory")

	taken, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = broker.Start(t.TempDir(), taken.Addr().(*net.TCPAddr).Port)
	require.ErrorContains(t, err, "address already in use")
}

func connect(t *testing.T, b *broker.Broker) *kgo.Client {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.UnknownTopicRetries(0))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func atoi(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
