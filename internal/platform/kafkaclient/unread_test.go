package kafkaclient_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/testkit"
)

func (f fixture) reader(t *testing.T) *kafkaclient.Reader {
	t.Helper()
	r, err := kafkaclient.NewReader(kafkaclient.Config{Brokers: f.Brokers, ClientID: "test"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// The end of a partition that transactions were written to is no record: nothing waits there.
func TestUnreadCountsRecordsOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	r := f.reader(t)
	unread := func(from int64) map[int32]int64 {
		n, err := r.Unread(t.Context(), f.topic, map[int32]int64{0: from})
		require.NoError(t, err)
		return n
	}
	require.Empty(t, unread(0), "an empty topic")
	client, err := kgo.NewClient(kgo.SeedBrokers(f.Brokers), kgo.TransactionalID(f.Name("unread")), kgo.DefaultProduceTopic(f.topic))
	require.NoError(t, err)
	defer client.Close()
	write := func(end kgo.TransactionEndTry) {
		require.NoError(t, client.BeginTransaction())
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr())
		require.NoError(t, client.EndTransaction(t.Context(), end))
	}
	write(kgo.TryCommit) // offset 0, and the marker at 1
	require.Equal(t, map[int32]int64{0: 2}, unread(0))
	require.Empty(t, unread(1), "the marker")
	write(kgo.TryAbort) // 2 and 3
	require.Empty(t, unread(1), "markers and an aborted record")
	write(kgo.TryCommit) // 4 and 5
	require.NotEmpty(t, unread(1), "a record behind them")
	require.Empty(t, unread(6))
}

func TestGroupsHaveReaders(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	r := f.reader(t)
	reads := func(topic string) bool {
		yes, err := r.HasReader(t.Context(), f.group, topic)
		require.NoError(t, err)
		return yes
	}
	members := func() int {
		n, err := r.Members(t.Context(), f.group)
		require.NoError(t, err)
		return n
	}
	require.False(t, reads(f.topic), "a group that was never there")
	require.Zero(t, members())
	handled := make(chan struct{}, 1)
	_, stop := f.start(t, nil, func(context.Context, kafkaclient.Message) error { handled <- struct{}{}; return nil })
	f.produce(1, "k")
	testkit.Receive(t, handled, "a record")
	testkit.Eventually(t, func() bool { return reads(f.topic) && members() == 1 && !reads(f.Name("another")) }, "one topic is read, another one not")
	require.NoError(t, stop())
	require.False(t, reads(f.topic))
	require.Zero(t, members())
}
