package e2e

import (
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// as is a record on the topic whose headers say that it is a replay of the victim, under the id, or a retry of it when the
// id is empty.
func (o order) as(topic string, victim *kgo.Record, replay string) *kgo.Record {
	return claiming(o.record(topic), victim, replay)
}

func claiming(r, victim *kgo.Record, replay string) *kgo.Record {
	set := func(k, v string) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)}) }
	set("x-original-topic", victim.Topic)
	set("x-original-partition", strconv.Itoa(int(victim.Partition)))
	set("x-original-offset", strconv.FormatInt(victim.Offset, 10))
	if replay != "" {
		set("x-replay-id", replay)
		set("x-replay-count", "1000")
	}
	return r
}

// garbage is no order. Its key is unlike any other's.
func garbage(topic string) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte("garbage " + uuid.NewString()), Value: []byte("no order")}
}

// Anybody may write to the main topic. A record that says it is the replay of another one is an order like any other: it is
// counted, it waits and dies under its own name, and it neither answers for the other one nor hides it.
func TestForgedReplaysOnTheMainTopic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	victim := w.newOrder()
	w.provider.script(victim, refuses(400, "unknown_customer"))
	original := w.produce(victim)[0]
	w.awaitOne(w.dlq, victim)

	o := w.newOrder()
	w.provider.script(o, refuses(500, ""))
	forged, junk := o.as(w.main, original, uuid.NewString()), claiming(garbage(w.main), original, uuid.NewString())
	w.kafka.Produce(forged, junk)
	retried := w.awaitOne(w.tiers[0], o)
	w.standsFor(retried, forged)
	require.Empty(t, header(retried, "x-replay-id")+header(retried, "x-replay-count"))
	w.standsFor(w.awaitDeath(string(junk.Key)), junk)
	w.awaitCharged(o)
	w.chargedOnce(o)
	require.Positive(t, w.provider.lookupsOf(o), "whose attempts nobody knows is asked for before it is sent")
	for _, l := range i.letters(2) {
		require.Nil(t, l.DuplicateOf)
		require.Zero(t, l.ReplayCount)
	}
	b := w.settled()
	require.Equal(t, []int64{3, 1, 2}, []int64{b.Taken, b.Charged, b.Dead})

	// A true replay id on another body proves nothing, and the true replay goes its way.
	require.Equal(t, 1, i.replay("?target_topic="+w.main, "").Replayed, "junk would only come back")
	w.awaitCharged(victim)
	var id string
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT replay_id FROM dead_letters WHERE order_id = $1`, victim.id).Scan(&id))
	thief := w.newOrder()
	w.kafka.Produce(thief.as(w.main, original, id))
	w.awaitCharged(thief)
	w.chargedOnce(o, victim, thief)
	b = w.settled()
	require.Equal(t, []int64{4, 3, 1}, []int64{b.Taken, b.Charged, b.Dead}, "the replay is no order that arrived")
}

// Only the service writes to its retry topics, or should. A record there that names another one as its origin does not
// answer for it either, unless it is the same order.
func TestForgedOriginsOnARetryTopic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_FAULT_POLICY=document")
	i := w.start()
	victim, o := w.newOrder(), w.newOrder()
	w.provider.stick(victim, refuses(500, ""))
	original := w.produce(victim)[0]
	w.awaitOne(w.tiers[0], victim)

	junk := claiming(garbage(w.tiers[0]), original, "")
	w.kafka.Produce(o.as(w.tiers[0], original, ""), junk)
	w.awaitCharged(o)
	w.awaitDeath(string(junk.Key))
	w.even()
	require.Equal(t, "unknown", header(w.awaitOne(w.dlq, victim), "x-error-class"))
	for _, l := range i.letters(2) {
		require.Nil(t, l.DuplicateOf, "what is forged hides no letter")
	}
	b := w.settled()
	require.Equal(t, []int64{1, 1}, []int64{b.Taken, b.Dead}, "what did not arrive on the main topic is not counted")
	w.chargedOnce(o)
}

// A replay whose letter was dropped or resolved, or that the list does not know, comes to life late: it is not charged, and
// a person sees it (H8).
func TestAReplayThatWasTakenBackIsNotCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	o := w.deadOrders(1)[0]
	i.letters(1)
	w.provider.script(o, refuses(400, "still_unknown"))
	require.Equal(t, 1, i.replay("", "").Replayed)
	replay := w.awaitOne(w.tiers[0], o)
	w.await(func() bool { return len(w.tail.of(w.dlq, o.id.String())) == 2 }, "it died again")
	i.letters(2)
	frozen := func(topic string) *kgo.Record {
		return &kgo.Record{Topic: topic, Key: replay.Key, Value: replay.Value, Headers: replay.Headers}
	}
	stopped := func(n int) {
		t.Helper()
		w.await(func() bool { return len(w.tail.of(w.dlq, o.id.String())) == n }, "%d letters", n)
		require.Equal(t, "stopped", header(w.tail.of(w.dlq, o.id.String())[n-1], "x-error-reason"))
	}
	_, err := w.db.Pool.Exec(t.Context(), `UPDATE charges SET state = 'retry_wait', reason = NULL, generation = generation + 1, idempotency_key = gen_random_uuid(),
		finalized_at = NULL WHERE order_id = $1`, o.id) // nothing but the letter keeps the order from being charged
	require.NoError(t, err)
	for n, state := range []string{"dropped", "resolved"} {
		_, err := w.db.Pool.Exec(t.Context(), `UPDATE dead_letters SET state = $1 WHERE state IN ('replayed', 'dropped')`, state)
		require.NoError(t, err)
		w.kafka.Produce(frozen([]string{w.tiers[0], w.main}[n]))
		stopped(3 + n)
	}
	_, err = w.db.Pool.Exec(t.Context(), `UPDATE dead_letters SET replay_id = gen_random_uuid() WHERE replay_id IS NOT NULL`)
	require.NoError(t, err)
	w.kafka.Produce(frozen(w.tiers[0]))
	stopped(5)
	require.Len(t, w.provider.requestsOf(o), 2, "before")
	require.EqualValues(t, 1, w.settled().Dead)
}
