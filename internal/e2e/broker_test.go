package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/testkit"
)

// newFaultyWorld is a world whose broker can be told to fail.
func newFaultyWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	return newWorldOn(t, testkit.FakeKafka(t), settings...)
}

// refusePublish lets the broker refuse everything that is published to the topic.
func (w *world) refusePublish(topic string) *kfake.FaultHandle {
	return w.kafka.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
}

func (w *world) awaitFault(fault *kfake.FaultHandle) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	require.NoError(w.t, fault.Wait(ctx, 1), "the broker was asked")
}

// The broker refuses the retry record: the message's fate is not durable, so its offset stays, and it is handled again.
func TestRefusedRetryPublishMovesNoOffset(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t)
	i := w.start()
	fault := w.refusePublish(w.tiers[0])
	o := w.newOrder()
	w.provider.stick(o, moneyMovesThen(refuses(500, "")))
	w.produce(o)
	i.awaitHeld("publish_refused")
	w.awaitFault(fault)
	i.awaitProbed()
	require.Empty(t, w.kafka.Committed(w.group, w.main), "no offset has moved")
	w.nowhere()

	fault.Remove()
	retried := w.awaitOne(w.tiers[0], o)
	require.Equal(t, "1", header(retried, "x-retry-attempt"), "what could not be written is not counted")
	w.provider.cure(o)
	w.awaitCharged(o)
	i.awaitReady()
	w.settled()
	w.chargedOnce(o)
}

// What was taken cannot be written into the books: the order is charged all the same, and its offset waits for the books (H18).
func TestUnwrittenBooksMoveNoOffset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	release := w.block("intake")
	o := w.newOrder()
	w.produce(o)
	w.awaitCharged(o)
	const refused = "progress not noted, offsets stay"
	w.await(func() bool { return len(i.log.lines())-len(i.log.without(refused)) >= 3 }, "three tries, longer than an interval of commits")
	require.Empty(t, w.kafka.Committed(w.group, w.main))
	release()
	w.settled()
	w.chargedOnce(o)
}

// The whole broker goes away in the middle of charges and comes back.
func TestBrokerOutage(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t, "BILLING_CONCURRENCY=4")
	i := w.start()
	w.provider.always(late(crowdLatency, moneyMoves))
	orders := w.newOrders(300)
	w.produce(orders...)
	w.await(func() bool { return w.charged(orders) >= 50 }, "50 are charged")
	w.kafka.Down()
	w.await(func() bool { ok, reasons := i.ready(); return !ok && strings.Contains(reasons, "broker: ") }, "not ready")
	w.kafka.Up()
	w.awaitCharged(orders...)
	i.awaitReady()
	w.settled()
	w.chargedOnce(orders...)
	w.nowhere()
}

// A coordinator that moves, as in any restart of a broker: whoever asks it for offsets is sent away for a while, and that
// is all. (In librdkafka 2.14 it can end the process, and leave partitions unread for ever.)
func TestMovingCoordinator(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t)
	fault := w.kafka.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.NotCoordinator, Count: 30})
	w.start()
	w.await(func() bool { return fault.Hits() == 30 }, "all who ask were sent away")
	os := w.newOrders(20) // on all partitions
	w.provider.script(os[0], refuses(500, ""))
	w.produce(os...)
	w.awaitCharged(os...)
	w.settled()
	w.chargedOnce(os...)
}
