package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// stranger joins a group by mistake, reads what it gets, and commits. It leaves when leave is called.
func (w *world) stranger(group, topic string) (leave func()) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(w.kafka.Brokers, ",")...), kgo.ClientID("stranger"), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.AutoCommitInterval(200*time.Millisecond))
	require.NoError(w.t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !client.PollFetches(context.Background()).IsClientClosed() {
		}
	}()
	return func() { client.Close(); <-done }
}

// Another program joins a group, takes partitions and commits: nobody charges the orders there. It is told by name, and the
// orders are charged once it has left.
func TestAStrangerInTheGroupIsTold(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		where func(*world) (topic, group string)
		fails bool // each order fails once, so that it comes to the tier
	}{
		"main topic":  {func(w *world) (string, string) { return w.main, w.group }, false},
		"retry topic": {func(w *world) (string, string) { return w.tiers[0], w.groupOf(w.tiers[0]) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			topic, group := row.where(w)
			i := w.start()
			i.awaitShare()
			i.awaitReady()
			w.booksAreOld()
			leave := w.stranger(group, topic)

			var orders []order
			w.await(func() bool {
				o := w.newOrder()
				if row.fails {
					w.provider.script(o, refuses(500, "later"))
				}
				orders = append(orders, o)
				w.produce(o)
				return i.metric("billing_committed_ahead", `topic="`+topic+`"`) > 0
			}, "a partition is ahead of the books")
			ok, reasons := i.ready()
			require.False(t, ok)
			require.Contains(t, reasons, "offsets: "+topic+"[")
			require.Contains(t, reasons, `client "stranger" at `)
			require.NotNil(t, i.log.find("the group has committed records that this service has not taken: another program may have joined it"))
			require.Less(t, w.charged(orders), len(orders))
			refused := w.run(nil, "topics", "accept-offsets")
			require.Equal(t, 1, refused.code, refused.out)
			require.Contains(t, refused.err, "stop all members of the group first")

			leave()
			w.awaitCharged(orders...)
			w.chargedOnce(orders...)
			w.await(func() bool { return w.balance().Taken == int64(w.kafka.Count(w.main)) }, "every record is taken")
			w.settled()
			i.awaitReady()
		})
	}
}

// booksAreOld: what is taken has been kept for longer than a rolling upgrade takes.
func (w *world) booksAreOld() {
	w.t.Helper()
	_, err := w.db.Pool.Exec(w.t.Context(), `UPDATE known_topics SET taken_since = taken_since - interval '2 hours'`)
	require.NoError(w.t, err)
}

// A person may take what another program has committed as it is: then it is told no more, and not read.
func TestForeignOffsetsAreAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	w.produce(w.newOrders(6)...)
	w.settled()
	i.stop()
	left := w.newOrders(6)
	w.produce(left...)
	ends, err := w.kafka.Admin.ListEndOffsets(t.Context(), w.main)
	require.NoError(t, err)
	require.NoError(t, w.kafka.Admin.CommitAllOffsets(t.Context(), w.group, ends.Offsets()))
	require.Contains(t, w.mustRun("topics", "accept-offsets").out, "accepted")
	i = w.start()
	fresh := w.newOrders(6)
	w.produce(fresh...)
	w.awaitCharged(fresh...)
	w.await(func() bool { return w.committed(w.main, w.group) }, "all offsets are committed")
	i.awaitReady()
	w.even()
	require.Nil(t, i.log.find("the group has committed records that this service has not taken: another program may have joined it"))
	require.Zero(t, w.charged(left))
}
