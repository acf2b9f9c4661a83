package e2e

import (
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// marker stands in every event, in a field that billing does not know. It may never be seen in a log.
const marker = "note-to-the-courier-7c41"

// order is one order of the world's shop.
type order struct {
	id, event uuid.UUID
	customer  uuid.UUID
	amount    string
}

func (w *world) newOrder() order {
	return order{id: uuid.New(), event: uuid.New(), customer: w.customer, amount: "149.90"}
}

func (w *world) newOrders(n int) []order {
	os := make([]order, n)
	for i := range os {
		os[i] = w.newOrder()
	}
	return os
}

// again is the same order, confirmed by another event.
func (o order) again() order {
	o.event = uuid.New()
	return o
}

func (o order) value() []byte {
	return fmt.Appendf(nil, `{"event_id":"%s","order_id":"%s","customer_id":"%s","total_amount":%q,"note":%q}`, o.event, o.id, o.customer, o.amount, marker)
}

func (o order) record(topic string) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte(o.id.String()), Value: o.value()}
}

// produce confirms the orders. The records are returned with their partition and offset.
func (w *world) produce(os ...order) []*kgo.Record {
	w.t.Helper()
	records := make([]*kgo.Record, len(os))
	for i, o := range os {
		records[i] = o.record(w.main)
	}
	w.kafka.Produce(records...)
	return records
}

// header is the one value of a header; "" when it is missing or repeated.
func header(r *kgo.Record, key string) string {
	value, n := "", 0
	for _, h := range r.Headers {
		if h.Key == key {
			value = string(h.Value)
			n++
		}
	}
	if n != 1 {
		return ""
	}
	return value
}

// millis is a header that holds an instant.
func (w *world) millis(r *kgo.Record, key string) time.Time {
	w.t.Helper()
	n, err := strconv.ParseInt(header(r, key), 10, 64)
	require.NoError(w.t, err, "header %s", key)
	return time.UnixMilli(n)
}

// standsFor checks that a retried or dead record stands for the original one: byte for byte, with its origin.
func (w *world) standsFor(r, original *kgo.Record) {
	w.t.Helper()
	require.Equal(w.t, original.Key, r.Key, "key")
	require.Equal(w.t, original.Value, r.Value, "value")
	require.Equal(w.t, original.Topic, header(r, "x-original-topic"))
	require.Equal(w.t, strconv.Itoa(int(original.Partition)), header(r, "x-original-partition"))
	require.Equal(w.t, strconv.FormatInt(original.Offset, 10), header(r, "x-original-offset"))
	require.Equal(w.t, strconv.FormatInt(original.Timestamp.UnixMilli(), 10), header(r, "x-original-timestamp"))
	require.NotEmpty(w.t, header(r, "x-error"))
	require.LessOrEqual(w.t, len(header(r, "x-error")), 1024)
	require.WithinDuration(w.t, time.Now(), w.millis(r, "x-first-failure-at"), patience)
}
