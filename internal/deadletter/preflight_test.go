package deadletter_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/retry"
)

func (w *world) succeeded(order uuid.UUID) {
	w.t.Helper()
	w.charge(order, "retry_wait", false)
	w.exec(`UPDATE charges SET state = 'succeeded', provider_charge_id = 'ch_1', finalized_at = now() WHERE order_id = $1`, order)
}

// What would only come back as a new letter is not sent, and the answer says why.
func TestAReplayKnowsWhatWouldComeBack(t *testing.T) {
	w := newWorld(t)
	w.maxAge = time.Hour
	charged, inReview := uuid.New(), uuid.New()
	w.succeeded(charged)
	w.charge(inReview, "review", true)
	now := retry.HeaderOriginalTimestamp
	fresh := time.Now().UnixMilli()
	recent := func(headers ...string) []string {
		return append([]string{now, strconv.FormatInt(fresh, 10)}, headers...)
	}
	w.kafka.Produce(
		w.dead(uuid.New(), 1, recent(retry.HeaderErrorClass, "invalid", retry.HeaderErrorReason, "missing_field")...),
		w.dead(uuid.New(), 2, recent(retry.HeaderErrorClass, "conflict", retry.HeaderErrorReason, "order_conflict")...),
		w.dead(charged, 3, recent()...),
		w.dead(inReview, 4, recent(retry.HeaderErrorClass, "unknown")...),
		w.dead(uuid.New(), 5), // long ago, and dead of something else
		w.dead(uuid.New(), 6, now, "", retry.HeaderErrorClass, "stale", retry.HeaderErrorReason, "too_old"),
		w.dead(uuid.New(), 7, recent()...),
	)
	w.ingest(0)
	w.listed(7)
	want := map[deadletter.Skip]int{
		deadletter.SkipInvalid: 1, deadletter.SkipConflict: 1, deadletter.SkipCharged: 1, deadletter.SkipReview: 1, deadletter.SkipTooOld: 2,
	}
	req := w.request()
	for _, req.DryRun = range []bool{true, false} {
		res, err := w.replayer(w.publisher).Replay(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, 1, res.Replayed)
		require.Equal(t, want, res.Skipped)
	}
	stats, err := w.list.Stats(t.Context(), w.ladder.DeadLetters())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"EUR": 5 * 14990}, stats.Amount, "six are open, and one of their orders is charged")

	req = w.request()
	req.LiftAge = true
	res, err := w.replayer(w.publisher).Replay(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, 2, res.Replayed)
	var lifted []bool
	for _, l := range w.listed(7) {
		if l.ReplayID != nil {
			lifted = append(lifted, w.replayed(*l.ReplayID).AgeLifted)
		}
	}
	require.ElementsMatch(t, []bool{true, true, false}, lifted, "the consumer asks for it here")
}

func TestADuplicateDoesNotLookOpen(t *testing.T) {
	w := newWorld(t)
	order := uuid.New()
	w.kafka.Produce(w.dead(order, 1), w.dead(order, 1))
	w.ingest(0)
	w.listed(2)
	for state, want := range map[deadletter.State]int{deadletter.Open: 1, deadletter.Duplicate: 1, deadletter.Replayed: 0} {
		found, err := w.list.Find(t.Context(), w.ladder.DeadLetters(), deadletter.Filter{State: state, Limit: 10})
		require.NoError(t, err)
		require.Len(t, found, want, state)
		for _, l := range found {
			require.Equal(t, state, l.State)
		}
	}
	res, err := w.replayer(w.publisher).Replay(t.Context(), w.request())
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Target: w.ladder.Tiers()[0].Topic, Replayed: 1, Skipped: map[deadletter.Skip]int{}}, res)
}

// The process died half-way, and its order was declined meanwhile: the letter must not stay in replaying for ever.
func TestAReplayThatDiedIsFinishedWhateverBecameOfTheOrder(t *testing.T) {
	died := func(w *world, r *kgo.Record) {
		w.exec(`UPDATE dead_letters SET state = 'replaying', replay_id = gen_random_uuid(), replay_target = $1, lease_until = now() - interval '1 s'
			WHERE partition = $2 AND "offset" = $3`, w.ladder.Main(), r.Partition, r.Offset)
	}
	t.Run("it came back", func(t *testing.T) {
		w := newWorld(t)
		order := uuid.New()
		r := w.dead(order, 7)
		w.kafka.Produce(r)
		w.ingest(0)
		w.listed(1)
		died(w, r)
		back := w.dead(order, 7, retry.HeaderErrorClass, "declined", retry.HeaderErrorReason, "declined", retry.HeaderReplayCount, "1", retry.HeaderReplayID, w.letter(r).ReplayID.String())
		w.kafka.Produce(back)
		w.listed(2)
		require.Equal(t, []deadletter.State{deadletter.Replayed, deadletter.Open}, []deadletter.State{w.letter(r).State, w.letter(back).State})
	})
	for state, sent := range map[string]int{"declined": 1, "succeeded for another record": 1, "succeeded for this one": 0} {
		t.Run(state, func(t *testing.T) {
			w := newWorld(t)
			order := uuid.New()
			r := w.dead(order, 7)
			w.kafka.Produce(r)
			w.ingest(0)
			w.listed(1)
			died(w, r)
			if state == "declined" {
				w.charge(order, state, false)
			} else {
				w.succeeded(order)
			}
			if sent == 0 {
				w.exec(`UPDATE charges SET (origin_topic_id, origin_partition, origin_offset) = (SELECT origin_topic_id, origin_partition, origin_offset FROM dead_letters)`)
			}
			res, err := w.replayer(w.publisher).Replay(t.Context(), w.request())
			require.NoError(t, err)
			require.Equal(t, []any{1, 0}, []any{res.Replayed, len(res.Skipped)})
			require.Equal(t, deadletter.Replayed, w.letter(r).State)
			require.Equal(t, sent, w.kafka.Count(w.ladder.Tiers()[0].Topic))
		})
	}
}

// The same call, taken up again, ends with one answer for all of it: what was marked before the process died counts, what it
// had taken is sent at once under the same id, and what died again since is not sent a second time.
func TestTheSameRunGoesOnWhereItStood(t *testing.T) {
	w := newWorld(t)
	done, taken, left := w.dead(uuid.New(), 1), w.dead(uuid.New(), 2), w.dead(uuid.New(), 3)
	w.kafka.Produce(done, taken, left)
	w.ingest(0)
	w.listed(3)
	req := w.request(place(done))
	req.Run = uuid.New()
	_, err := w.replayer(w.publisher).Replay(t.Context(), req)
	require.NoError(t, err)
	w.exec(`UPDATE dead_letters SET state = 'replaying', replay_run = $1, replay_id = gen_random_uuid(), replay_target = 'x', lease_until = now() + interval '1 hour'
		WHERE partition = $2 AND "offset" = $3`, req.Run, taken.Partition, taken.Offset)
	id := *w.letter(taken).ReplayID
	again := w.dead(uuid.New(), 4)
	w.kafka.Produce(again) // died since
	w.listed(4)

	other, err := w.replayer(w.publisher).Replay(t.Context(), w.request(place(taken)))
	require.NoError(t, err)
	require.Equal(t, map[deadletter.Skip]int{deadletter.SkipBusy: 1}, other.Skipped, "another run keeps off")
	req.Messages = nil
	for range 2 {
		res, err := w.replayer(w.publisher).Replay(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, deadletter.Result{Target: w.ladder.Tiers()[0].Topic, Replayed: 3, Skipped: map[deadletter.Skip]int{}}, res)
	}
	require.Equal(t, deadletter.Open, w.letter(again).State)
	require.Equal(t, id, *w.letter(taken).ReplayID)
	require.Equal(t, 3, w.kafka.Count(w.ladder.Tiers()[0].Topic))
}
