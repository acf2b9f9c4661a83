package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxRecord is the limit of the topics in this test.
const maxRecord = 100_000

// The largest records that the main topic takes fit no topic of the same limit any more, once they have our headers. They
// die all the same, with the body in the database, and a replay sends them back byte for byte (H14).
func TestTheLargestRecordsDieAndComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limited := w.kafka.Name("limited")
	w.kafka.CreateTopics(1, limited)
	limit := kadm.AlterConfig{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr(strconv.Itoa(maxRecord))}
	_, err := w.kafka.Admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{limit}, w.main, w.dlq, limited)
	require.NoError(t, err)
	i := w.start()

	inValue, inKey := w.newOrder(), w.newOrder()
	records := []*kgo.Record{
		w.largest(limited, func(n int) *kgo.Record {
			r := inValue.record(w.main)
			r.Value = bytes.Replace(r.Value, []byte(marker), noise(n), 1)
			return r
		}),
		w.largest(limited, func(n int) *kgo.Record {
			r := inKey.record(w.main)
			r.Key = noise(n)
			return r
		}),
	}
	for n, o := range []order{inValue, inKey} {
		w.provider.script(o, refuses(400, "unknown_customer"))
		w.kafka.Produce(records[n])
	}
	letters := i.letters(2)
	require.Equal(t, 2, w.count(`SELECT count(*) FROM parked_bodies`))
	for _, l := range letters {
		require.Equal(t, "provider_bad_request", l.Reason)
		require.Contains(t, []string{inValue.id.String(), inKey.id.String()}, *l.OrderID, "the order is told from the parked body")
	}
	ok, reasons := i.ready()
	require.True(t, ok, reasons)

	require.Equal(t, 2, i.replay("", "").Replayed)
	w.awaitCharged(inValue, inKey)
	for _, r := range records {
		back := w.tail.ofValue(w.tiers[0], r.Value)
		require.NotNil(t, back)
		require.Equal(t, r.Key, back.Key)
		require.Empty(t, header(back, "x-parked-body"))
	}
	w.settled()
	w.chargedOnce(inValue, inKey)
}

// largest is the record of which one byte more would be refused by a topic of this limit.
func (w *world) largest(topic string, of func(n int) *kgo.Record) *kgo.Record {
	w.t.Helper()
	refused := func(n int) bool {
		r := of(n)
		r.Topic = topic
		err := w.kafka.Client.ProduceSync(context.Background(), r).FirstErr()
		if !errors.Is(err, kerr.MessageTooLarge) {
			require.NoError(w.t, err)
		}
		return err != nil
	}
	low, high := 0, maxRecord // taken, refused
	for high-low > 1 {
		if n := (low + high) / 2; refused(n) {
			high = n
		} else {
			low = n
		}
	}
	return of(low)
}

// noise is a text that needs no escape in JSON, and that compression makes no shorter.
func noise(n int) []byte {
	random := make([]byte, n)
	_, _ = rand.Read(random) // never fails
	return []byte(base64.RawURLEncoding.EncodeToString(random))[:n]
}
