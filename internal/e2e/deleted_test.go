package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
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
