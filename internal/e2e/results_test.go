package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The events on the wire, field by field: other teams read them.
func TestResultEventsAreAsTheContractSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	paid, declined, rejected := w.newOrder(), w.newOrder(), w.newOrder()
	w.provider.script(declined, refuses(402, "insufficient_funds"))
	w.provider.script(rejected, refuses(422, "amount_not_supported"))
	r := paid.record(w.main)
	r.Headers = []kgo.RecordHeader{{Key: "traceparent", Value: []byte(traceparent)}}
	w.kafka.Produce(r)
	w.produce(declined, rejected)

	for _, c := range []struct {
		o    order
		want map[string]any
	}{
		{paid, map[string]any{"event_type": "billing.charge.succeeded.v1", "provider_charge_id": ""}},
		{declined, map[string]any{"event_type": "billing.charge.failed.v1", "kind": "declined", "reason": "declined"}},
		{rejected, map[string]any{"event_type": "billing.charge.failed.v1", "kind": "rejected", "reason": "provider_rejected"}},
	} {
		record := w.awaitOne(results, c.o)
		require.Equal(t, c.o.id.String(), string(record.Key))
		require.NotContains(t, string(record.Value), w.customer.String(), "no customer data")
		var got map[string]any
		require.NoError(t, json.Unmarshal(record.Value, &got))
		require.NoError(t, uuid.Validate(got["event_id"].(string)))
		at, err := time.Parse(time.RFC3339Nano, got["occurred_at"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, patience)
		require.Equal(t, time.UTC, at.Location())
		c.want["event_id"], c.want["occurred_at"] = got["event_id"], got["occurred_at"]
		c.want["order_id"], c.want["generation"], c.want["version"] = c.o.id.String(), 1.0, 1.0
		c.want["amount"], c.want["currency"] = "149.90", "EUR"
		if _, succeeded := c.want["provider_charge_id"]; succeeded {
			c.want["provider_charge_id"] = w.provider.chargesOf(c.o)[0].ID
		}
		require.Equal(t, c.want, got)
		require.Equal(t, []string{c.want["event_id"].(string), c.want["event_type"].(string)}, []string{header(record, "event_id"), header(record, "event_type")})
	}
	require.Equal(t, traceparent, header(w.awaitOne(results, paid), "traceparent"))
	w.settled()
}

// A broker that takes no events: the charges go on, the events wait, none is lost.
func TestResultsWaitForTheBroker(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t)
	w.start()
	fault := w.refusePublish(results)
	orders := w.newOrders(20)
	w.produce(orders...)
	w.awaitCharged(orders...)
	w.awaitFault(fault)
	require.Empty(t, w.tail.all(results))
	require.Equal(t, 20, w.count(`SELECT count(*) FROM outbox`))
	fault.Remove()
	w.settled()
	for _, o := range orders {
		require.Len(t, w.resultsOf(o), 1)
	}
}
