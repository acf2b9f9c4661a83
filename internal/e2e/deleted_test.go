package e2e

import (
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// H12: retention deletes orders while no instance runs. Readiness, a metric and a log line say so, also after a restart,
// until a person has accepted it.
func TestDeletedOrdersAreToldUntilAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	before := w.newOrders(6)
	w.produce(before...)
	w.awaitCharged(before...)
	w.settled()
	i.stop()
	lost := w.newOrder()
	at := w.produce(lost)[0]
	_, err := w.kafka.Admin.DeleteRecords(t.Context(), kadm.OffsetsList{{Topic: w.main, Partition: at.Partition, At: at.Offset + 1}}.Offsets())
	require.NoError(t, err)

	for range 2 {
		i = w.start()
		w.await(func() bool { return i.metric("billing_deleted_records", `topic="`+w.main+`"`) == 1 }, "the loss is told")
		ok, reasons := i.ready()
		require.False(t, ok)
		require.Contains(t, reasons, "billing topics accept-deleted")
		i.stop()
	}
	i = w.start()
	require.Contains(t, w.mustRun("topics", "accept-deleted").out, "accepted as lost: "+w.main)
	i.awaitReady()
	require.Contains(t, w.mustRun("topics", "accept-deleted").out, "nothing to accept")
}

// H12 and H28 together: retention deletes what waits in a retry topic that the settings do not name any more. Nothing is left
// there then, and that is no good news.
func TestOrdersDeletedInALeftTopicAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_RETRY_DELAYS=5s,6s")
	i := w.start()
	first, second := w.newOrder(), w.newOrder()
	for partitionOf(second, 3) != partitionOf(first, 3) { // the group has been in that partition
		second = w.newOrder()
	}
	fail := func(o order) *kgo.Record {
		w.provider.script(o, refuses(500, "later"))
		w.produce(o)
		return w.awaitOne(w.tiers[0], o)
	}
	partition := fail(first).Partition
	w.awaitCharged(first)
	w.settled()
	require.Equal(t, partition, fail(second).Partition)
	i.stop()
	ends, err := w.kafka.Admin.ListEndOffsets(t.Context(), w.tiers[0])
	require.NoError(t, err)
	_, err = w.kafka.Admin.DeleteRecords(t.Context(), ends.Offsets())
	require.NoError(t, err)

	other := []string{"BILLING_RETRY_DELAYS=1s"}
	w.with(other, "topics", "apply", "--partitions", "3")
	i = w.start(other...)
	w.await(func() bool { return i.metric("billing_deleted_records", `topic="`+w.tiers[0]+`"`) > 0 }, "the loss is told")
	_, reasons := i.ready()
	require.Contains(t, reasons, "retention: retention deleted records before they were handled: "+w.tiers[0])
}

// partitionOf is where the service's producer puts the records of an order.
func partitionOf(o order, partitions uint32) uint32 {
	return crc32.ChecksumIEEE([]byte(o.id.String())) % partitions
}
