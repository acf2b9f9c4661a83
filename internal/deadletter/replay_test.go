package deadletter_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/audit"
	"example.com/billing/internal/billing"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/proof"
	"example.com/billing/internal/retry"
)

func TestReplaySendsTheMessageBack(t *testing.T) {
	w := newWorld(t)
	for name, target := range map[string]string{"the first tier by default": "", "the main topic when it is named": w.ladder.Main()} {
		t.Run(name, func(t *testing.T) {
			w.kafka.Produce(w.dead(uuid.New(), 900)) // stays: it is not asked for
			r := w.dead(uuid.New(), int64(len(name)), retry.HeaderReplayCount, "2", retry.HeaderReplayID, uuid.NewString())
			r.Timestamp = time.Now().Add(-48 * time.Hour)
			w.kafka.Produce(r)
			defer w.ingest(0)()
			began := time.Now().Truncate(time.Millisecond)
			req := w.request(place(r))
			req.Target = target
			res, err := w.replayer(w.publisher).Replay(t.Context(), req)
			require.NoError(t, err)
			want := target
			if want == "" {
				want = w.ladder.Tiers()[0].Topic
			}
			require.Equal(t, deadletter.Result{Target: want, Replayed: 1, Skipped: map[deadletter.Skip]int{}}, res)

			sent := w.kafka.Consume(want, 1)[0]
			require.Equal(t, r.Key, sent.Key)
			require.Equal(t, r.Value, sent.Value)
			require.False(t, sent.Timestamp.Before(began), "a fresh timestamp")
			l := w.letter(r)
			require.Equal(t, map[string]string{
				retry.HeaderAttempt: "0", retry.HeaderOriginalTopic: w.ladder.Main(), retry.HeaderOriginalPartition: "1",
				retry.HeaderOriginalOffset: w.kafka.Header(r, retry.HeaderOriginalOffset), retry.HeaderOriginalTimestamp: "1767366000000",
				retry.HeaderFirstFailureAt: "1767366001000", retry.HeaderReplayCount: "3", retry.HeaderReplayID: l.ReplayID.String(),
				retry.HeaderTraceparent: w.kafka.Header(r, retry.HeaderTraceparent), "shop": "eu",
			}, headersOf(sent, retry.HeaderNotBefore))
			require.Equal(t, []any{deadletter.Replayed, want}, []any{l.State, *l.ReplayTarget})
			require.NotNil(t, l.FinishedAt)
			require.Equal(t, "waiting", w.fate(int64(len(name))))
			require.False(t, w.ladder.Open(message(sent), time.Now()).NotBefore.After(time.Now()), "due at once")

			require.Equal(t, &proof.Replay{
				OriginTopic: w.ladder.Main(), OriginPart: 1, OriginOffset: int64(len(name)), BodyHash: proof.BodyHash(sent.Key, sent.Value), Count: 3,
			}, w.replayed(*l.ReplayID), "so the record is believed")
		})
	}
	trail, err := audit.New(w.db.Pool).List(t.Context(), audit.Query{Actor: "alice", Limit: 10})
	require.NoError(t, err)
	require.Len(t, trail, 4)
	require.Equal(t, []string{"dlq.replay", "done", "provider is back", "req-1"}, []string{trail[0].Action, trail[0].Outcome, trail[0].Reason, trail[0].RequestID})
}

// replayed is what the list says of the replay while the main topic is the one that was listed.
func (w *world) replayed(id uuid.UUID) *proof.Replay {
	w.t.Helper()
	var mainID uuid.UUID
	require.NoError(w.t, w.db.Pool.QueryRow(w.t.Context(), `SELECT max(origin_topic_id::text)::uuid FROM dead_letters`).Scan(&mainID))
	r, err := w.list.Replayed(w.t.Context(), id, mainID)
	require.NoError(w.t, err)
	return r
}

func TestWhatTheListSaysOfAReplay(t *testing.T) {
	w := newWorld(t)
	known, elsewhere := w.dead(uuid.New(), 7), w.dead(uuid.New(), 8, retry.HeaderOriginalTopic, w.ladder.Tiers()[0].Topic)
	nowhere := w.dead(uuid.New(), 9, retry.HeaderOriginalTopic, "")
	w.kafka.Produce(known, elsewhere, nowhere)
	w.ingest(0)
	_, err := w.replayer(w.publisher).Replay(t.Context(), w.request())
	require.NoError(t, err)
	id := func(r *kgo.Record) uuid.UUID { return *w.letter(r).ReplayID }
	require.Nil(t, w.replayed(uuid.New()), "nobody made it")
	require.Equal(t, w.ladder.Main(), w.replayed(id(known)).OriginTopic)
	require.Equal(t, w.ladder.Tiers()[0].Topic, w.replayed(id(elsewhere)).OriginTopic)
	require.Empty(t, w.replayed(id(nowhere)).OriginTopic)

	again, err := w.list.Replayed(t.Context(), id(known), uuid.New())
	require.NoError(t, err)
	require.Empty(t, again.OriginTopic, "the main topic was created again: its records are others (H11)")
	for state, back := range map[string]bool{"replayed": false, "dropped": true, "resolved": true} {
		w.exec(`UPDATE dead_letters SET state = $1`, state)
		require.Equal(t, back, w.replayed(id(known)).TakenBack, state)
	}
}

func TestReplaySkips(t *testing.T) {
	w := newWorld(t)
	refused := uuid.New()
	w.charge(refused, "declined", false)
	letters := map[deadletter.Skip]*kgo.Record{
		deadletter.SkipDeclined:  w.dead(refused, 1),
		deadletter.SkipCeiling:   w.dead(uuid.New(), 2, retry.HeaderReplayCount, "5", retry.HeaderReplayID, uuid.NewString()),
		deadletter.SkipFinished:  w.dead(uuid.New(), 3),
		deadletter.SkipBusy:      w.dead(uuid.New(), 4),
		deadletter.SkipDuplicate: w.dead(uuid.New(), 5),
	}
	w.kafka.Produce(w.dead(uuid.New(), 5), w.dead(uuid.New(), 6, retry.HeaderErrorReason, "declined", retry.HeaderErrorClass, "declined"))
	var places []deadletter.Place
	for _, r := range letters {
		r.Key = nil
		w.kafka.Produce(r)
		places = append(places, place(r), place(r)) // named twice is once
	}
	w.ingest(0)
	w.listed(7)
	w.exec(`UPDATE dead_letters SET state = 'dropped', finished_at = now() WHERE origin_offset = 3`)
	w.exec(`UPDATE dead_letters SET state = 'replaying', replay_id = gen_random_uuid(), replay_target = 'x', lease_until = now() + interval '1 hour' WHERE origin_offset = 4`)
	// Which of the two with origin 5 was listed first is up to the partitions: make it the one that was not named.
	repeat := letters[deadletter.SkipDuplicate]
	w.exec(`UPDATE dead_letters SET duplicate_of = (SELECT id FROM dead_letters WHERE origin_offset = 5 AND NOT (partition = $1 AND "offset" = $2))
		WHERE origin_offset = 5 AND partition = $1 AND "offset" = $2`, repeat.Partition, repeat.Offset)
	w.exec(`UPDATE dead_letters SET duplicate_of = NULL WHERE origin_offset = 5 AND NOT (partition = $1 AND "offset" = $2)`, repeat.Partition, repeat.Offset)

	req := w.request(append(places, deadletter.Place{Partition: 2, Offset: 1 << 40})...)
	for _, req.DryRun = range []bool{true, false} {
		res, err := w.replayer(w.publisher).Replay(t.Context(), req)
		require.NoError(t, err)
		require.Zero(t, res.Replayed)
		require.Equal(t, map[deadletter.Skip]int{
			deadletter.SkipDeclined: 1, deadletter.SkipCeiling: 1, deadletter.SkipFinished: 1, deadletter.SkipBusy: 1,
			deadletter.SkipDuplicate: 1, deadletter.SkipNotFound: 1,
		}, res.Skipped)
	}
	res, err := w.replayer(w.publisher).Replay(t.Context(), w.request())
	require.NoError(t, err)
	require.Equal(t, 1, res.Replayed, "the first of the two with origin 5")
	require.Equal(t, 2, res.Skipped[deadletter.SkipDeclined])
}

func TestReplayOfARejectedOrderOpensItAgain(t *testing.T) {
	w := newWorld(t)
	rejected, unknown, other := uuid.New(), uuid.New(), uuid.New()
	oldKey := w.charge(rejected, "rejected", false)
	w.charge(unknown, "rejected", true)
	w.charge(other, "rejected", false)
	class := []string{retry.HeaderErrorClass, "rejected", retry.HeaderErrorReason, "provider_bad_request"}
	w.kafka.Produce(w.dead(rejected, 1, class...), w.dead(rejected, 2, class...), w.dead(unknown, 3, class...), w.dead(other, 4))
	w.ingest(0)
	res, err := w.replayer(w.publisher).Replay(t.Context(), w.request())
	require.NoError(t, err)
	require.Equal(t, 4, res.Replayed)

	var state string
	var generation int
	var key uuid.UUID
	var clean bool
	read := func(order uuid.UUID) {
		t.Helper()
		require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT state, generation, idempotency_key, reason IS NULL AND first_sent_at IS NULL AND last_sent_at IS NULL
			AND finalized_at IS NULL FROM charges WHERE order_id = $1`, order).Scan(&state, &generation, &key, &clean))
	}
	read(rejected)
	require.Equal(t, []any{"retry_wait", 2, true}, []any{state, generation, clean}, "once, though two letters ask for it")
	require.Equal(t, billing.IdempotencyKey("test", "acme", rejected, 2), key)
	require.NotEqual(t, oldKey, key)
	for _, order := range []uuid.UUID{unknown, other} {
		read(order)
		require.Equal(t, []any{"rejected", 1}, []any{state, generation}, "money may have moved, or the letter says something else")
	}
}

func TestAnUncertainReplayIsTakenUpAgainUnderTheSameID(t *testing.T) {
	w := newWorld(t)
	order := uuid.New()
	w.charge(order, "rejected", false)
	r := w.dead(order, 7, retry.HeaderErrorClass, "rejected", retry.HeaderErrorReason, "provider_bad_request")
	w.kafka.Produce(r)
	w.ingest(0)
	lost := publisherFunc(func(ctx context.Context, records []kafkaclient.Record) []error {
		require.NoError(t, errors.Join(w.publisher.PublishAll(ctx, records)...))
		return []error{errors.New("the acknowledgement got lost")}
	})
	res, err := w.replayer(lost).Replay(t.Context(), w.request())
	require.NoError(t, err)
	require.Equal(t, map[deadletter.Skip]int{deadletter.SkipNoAck: 1}, res.Skipped)
	require.Equal(t, deadletter.Replaying, w.letter(r).State)
	w.exec(`UPDATE charges SET state = 'rejected', reason = 'provider_bad_request', finalized_at = now()`) // the lost one was refused anew
	w.exec(`UPDATE record_fates SET fate = 'dead'`)

	res, err = w.replayer(w.publisher).Replay(t.Context(), w.request())
	require.NoError(t, err)
	require.Equal(t, 1, res.Replayed)
	sent := w.kafka.Consume(w.ladder.Tiers()[0].Topic, 2)
	require.Equal(t, w.kafka.Header(sent[0], retry.HeaderReplayID), w.kafka.Header(sent[1], retry.HeaderReplayID))
	var generation int
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT generation FROM charges`).Scan(&generation))
	require.Equal(t, 2, generation, "one replay opens an order once")
	require.Equal(t, "dead", w.fate(7), "one replay moves the fate once")
}

func TestOneOfManyReplaysGetsEachLetter(t *testing.T) {
	w := newWorld(t)
	const letters, people = 300, 12
	var records []*kgo.Record
	for i := range letters {
		records = append(records, w.dead(uuid.New(), int64(i)))
	}
	w.kafka.Produce(records...)
	w.ingest(0)
	w.listed(letters)
	start := make(chan struct{})
	var replayed atomic.Int64
	var all sync.WaitGroup
	for range people {
		all.Go(func() {
			<-start
			res, err := w.replayer(w.publisher).Replay(t.Context(), w.request())
			if err != nil {
				t.Error(err)
			}
			replayed.Add(int64(res.Replayed))
		})
	}
	close(start)
	all.Wait()
	require.EqualValues(t, letters, replayed.Load())
	require.Equal(t, letters, w.kafka.Count(w.ladder.Tiers()[0].Topic))
}

func TestWhatDiesDuringAReplayIsLeftToTheNext(t *testing.T) {
	w := newWorld(t)
	w.kafka.Produce(w.dead(uuid.New(), 1))
	w.ingest(0)
	late := w.dead(uuid.New(), 2)
	dying := publisherFunc(func(ctx context.Context, records []kafkaclient.Record) []error {
		w.kafka.Produce(late)
		w.listed(2)
		return w.publisher.PublishAll(ctx, records)
	})
	res, err := w.replayer(dying).Replay(t.Context(), w.request())
	require.NoError(t, err)
	require.Equal(t, 1, res.Replayed)
	require.Equal(t, deadletter.Open, w.letter(late).State)
}

func TestReplayStopsAtMax(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.kafka.Produce(w.dead(uuid.New(), int64(i)))
	}
	w.ingest(0)
	req := w.request()
	req.Max = 4
	for _, want := range []int{4, 4, 2, 0} {
		res, err := w.replayer(w.publisher).Replay(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, want, res.Replayed)
	}
}

func TestARecordThatRetentionTookStaysOpen(t *testing.T) {
	w := newWorld(t)
	gone, there := w.dead(uuid.New(), 1), w.dead(uuid.New(), 2)
	w.kafka.Produce(gone, there)
	w.ingest(0)
	w.listed(2)
	var del kadm.Offsets
	del.Add(kadm.Offset{Topic: gone.Topic, Partition: gone.Partition, At: gone.Offset + 1})
	_, err := w.kafka.Admin.DeleteRecords(t.Context(), del)
	require.NoError(t, err)

	res, err := w.replayer(w.publisher).Replay(t.Context(), w.request())
	require.NoError(t, err)
	require.Equal(t, []any{1, map[deadletter.Skip]int{deadletter.SkipGone: 1}}, []any{res.Replayed, res.Skipped})
	require.Equal(t, deadletter.Open, w.letter(gone).State)
	require.Equal(t, []string{"dead", "waiting"}, []string{w.fate(1), w.fate(2)})
}

func TestAParkedBodyIsPutBack(t *testing.T) {
	w := newWorld(t)
	parked, lost := uuid.New(), uuid.New()
	order := uuid.New()
	whole, empty := w.dead(order, 1, retry.HeaderParked, parked.String()), w.dead(uuid.New(), 2, retry.HeaderParked, lost.String())
	w.exec(`INSERT INTO parked_bodies (id, key, value) VALUES ($1, $2, $3)`, parked, whole.Key, whole.Value)
	key, body := whole.Key, whole.Value
	whole.Key, whole.Value, empty.Value = nil, nil, nil // a key goes with the body when it does not fit either
	w.kafka.Produce(whole, empty)
	w.ingest(0)
	res, err := w.replayer(w.publisher).Replay(t.Context(), w.request())
	require.NoError(t, err)
	require.Equal(t, []any{1, map[deadletter.Skip]int{deadletter.SkipGone: 1}}, []any{res.Replayed, res.Skipped})
	require.Equal(t, order, *w.letter(whole).OrderID)
	sent := w.kafka.Consume(w.ladder.Tiers()[0].Topic, 1)[0]
	require.Equal(t, [][]byte{key, body}, [][]byte{sent.Key, sent.Value})
	require.NotContains(t, headersOf(sent), retry.HeaderParked)
}

func TestReplayIsRefused(t *testing.T) {
	w := newWorld(t)
	w.kafka.Produce(w.dead(uuid.New(), 1))
	replayer := w.replayer(w.publisher)

	req := w.request()
	req.Topic = "somebody.else.dlq"
	_, err := replayer.Replay(t.Context(), req)
	require.ErrorAs(t, err, new(*deadletter.TopicError))

	req = w.request()
	req.Target = w.ladder.DeadLetters()
	_, err = replayer.Replay(t.Context(), req)
	require.ErrorAs(t, err, new(*deadletter.TargetError))
	require.ErrorContains(t, err, w.ladder.Tiers()[0].Topic)

	req = w.request()
	req.Reason = ""
	_, err = replayer.Replay(t.Context(), req)
	require.ErrorContains(t, err, "reason")

	impatient, err := deadletter.NewReplayer(deadletter.ReplayerConfig{
		Ladder: w.ladder, Ceiling: 5, Environment: "test", Clock: time.Now, Log: w.log, ListWait: time.Millisecond, Held: runs,
	}, w.db.Pool, w.reader, deadletter.NewRecords(w.db.Pool, w.reader, w.reader), w.publisher)
	require.NoError(t, err)
	_, err = impatient.Replay(t.Context(), w.request())
	require.ErrorIs(t, err, deadletter.ErrBehind, "nobody lists")
}

func TestReplayerRefusesATargetThatNobodyReads(t *testing.T) {
	w := newWorld(t)
	cfg := deadletter.ReplayerConfig{Ladder: w.ladder, Ceiling: 5, Environment: "test", Clock: time.Now, Log: w.log, Held: runs}
	for _, target := range []string{"elsewhere", w.ladder.DeadLetters()} {
		cfg.Targets = []string{target}
		_, err := deadletter.NewReplayer(cfg, w.db.Pool, w.reader, deadletter.NewRecords(w.db.Pool, w.reader, w.reader), w.publisher)
		require.ErrorContains(t, err, target)
	}
}

// publisherFunc puts a fault between the replay and the real producer.
type publisherFunc func(ctx context.Context, records []kafkaclient.Record) []error

func (f publisherFunc) PublishAll(ctx context.Context, records []kafkaclient.Record) []error {
	return f(ctx, records)
}

func headersOf(r *kgo.Record, without ...string) map[string]string {
	m := map[string]string{}
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	for _, k := range without {
		delete(m, k)
	}
	return m
}

func message(r *kgo.Record) kafkaclient.Message {
	m := kafkaclient.Message{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, kafkaclient.Header{Key: h.Key, Value: h.Value})
	}
	return m
}

func runs() failure.Reason { return "" }
