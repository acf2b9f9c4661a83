package deadletter_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/proof"
	"example.com/billing/internal/retry"
	"example.com/billing/internal/testkit"
)

func TestARecordIsListedWithWhatItsHeadersTell(t *testing.T) {
	w := newWorld(t)
	order := uuid.New()
	r := w.dead(order, 7)
	w.kafka.Produce(r)
	w.ingest(0)
	w.listed(1)

	l := w.letter(r)
	require.Equal(t, deadletter.Open, l.State)
	require.Equal(t, []any{failure.ClassExhausted, failure.Provider5xx, "provider_5xx: 503", 4}, []any{l.Class, l.Reason, l.Error, l.Failures})
	require.Equal(t, []any{order, int64(14990), "EUR"}, []any{*l.OrderID, *l.AmountMinor, *l.Currency})
	require.Equal(t, []any{w.ladder.Main(), int32(1), int64(7)}, []any{*l.OriginTopic, *l.OriginPart, *l.OriginOffset})
	require.Equal(t, []int64{1767366000000, 1767366001000}, []int64{l.OriginAt.UnixMilli(), l.FirstFailure.UnixMilli()})
	require.WithinDuration(t, time.Now(), l.DeadAt, time.Minute)
	require.Nil(t, l.DuplicateOf)
}

func TestGarbageIsListedToo(t *testing.T) {
	w := newWorld(t)
	id := uuid.New()
	cases := map[string]struct {
		record *kgo.Record
		check  func(t *testing.T, l deadletter.Letter)
	}{
		"nothing at all": {&kgo.Record{}, func(t *testing.T, l deadletter.Letter) {
			require.Equal(t, failure.Unclassified, l.Reason)
			require.Equal(t, failure.ClassExhausted, l.Class)
			require.Nil(t, l.OriginTopic)
			require.Nil(t, l.OrderID)
		}},
		"reason and class off the list": {w.dead(id, 20, retry.HeaderErrorReason, "made_up", retry.HeaderErrorClass, "made_up"), func(t *testing.T, l deadletter.Letter) {
			require.Equal(t, failure.Unclassified, l.Reason)
			require.Equal(t, failure.ClassExhausted, l.Class)
		}},
		"NUL and broken UTF-8 in the error": {w.dead(id, 21, retry.HeaderError, "a\x00b\xffc\nd"), func(t *testing.T, l deadletter.Letter) {
			require.Equal(t, "a b\uFFFDc d", l.Error)
		}},
		"NUL in the origin topic": {w.dead(id, 22, retry.HeaderOriginalTopic, "or\x00ders"), func(t *testing.T, l deadletter.Letter) {
			require.Nil(t, l.OriginTopic)
		}},
		"negative origin offset": {w.dead(id, -3), func(t *testing.T, l deadletter.Letter) {
			require.Nil(t, l.OriginOffset)
		}},
		"origin on a foreign topic": {w.dead(id, 23, retry.HeaderOriginalTopic, "somebody.else"), func(t *testing.T, l deadletter.Letter) {
			require.Equal(t, "somebody.else", *l.OriginTopic)
		}},
		"times that no calendar has": {w.dead(id, 24, retry.HeaderFirstFailureAt, "1125899906842623", retry.HeaderOriginalTimestamp, "abc"), func(t *testing.T, l deadletter.Letter) {
			require.Nil(t, l.FirstFailure)
			require.Nil(t, l.OriginAt)
		}},
		"numbers too large": {w.dead(id, 25, retry.HeaderAttempt, "99999999999999999999", retry.HeaderReplayCount, "-1"), func(t *testing.T, l deadletter.Letter) {
			require.Zero(t, l.Failures)
			require.Zero(t, l.ReplayCount)
		}},
		"timestamp in the year 30000": {&kgo.Record{Timestamp: time.UnixMilli(884541600000000)}, func(t *testing.T, l deadletter.Letter) {
			require.WithinDuration(t, time.Now(), l.DeadAt, time.Minute)
		}},
	}
	for _, c := range cases {
		c.record.Topic = w.ladder.DeadLetters()
		w.kafka.Produce(c.record)
	}
	w.ingest(0)
	w.listed(len(cases))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { c.check(t, w.letter(c.record)) })
	}
}

func TestARecordPublishedTwiceCountsOnce(t *testing.T) {
	w := newWorld(t)
	order, replay := uuid.New(), uuid.New()
	first, again := w.dead(order, 7), w.dead(order, 7)
	other := w.dead(order, 8)
	replayed := w.dead(order, 7, retry.HeaderReplayCount, "1", retry.HeaderReplayID, replay.String())
	w.kafka.Produce(first, again, other, replayed)
	w.ingest(0)
	w.listed(4)

	require.Equal(t, w.letter(first).ID, *w.letter(again).DuplicateOf)
	require.Nil(t, w.letter(other).DuplicateOf)
	require.Nil(t, w.letter(replayed).DuplicateOf, "it died anew after a replay")

	stats, err := w.list.Stats(t.Context(), w.ladder.DeadLetters())
	require.NoError(t, err)
	require.Equal(t, map[failure.Reason]int64{failure.Provider5xx: 3}, stats.Unresolved)
	require.Equal(t, map[string]int64{"EUR": 14990}, stats.Amount, "an order is charged once, so it is at risk once")
	require.Positive(t, stats.Oldest)
}

// A record that is delivered again is known by its place, the replay it came from, and its body.
func TestWhatHasDiedIsKnown(t *testing.T) {
	w := newWorld(t)
	w.ingest(0)
	letter, replay := w.dead(uuid.New(), 7), uuid.New()
	w.kafka.Produce(letter, w.dead(uuid.New(), 8, retry.HeaderReplayID, replay.String()))
	w.listed(2)
	var main uuid.UUID
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT origin_topic_id FROM dead_letters LIMIT 1`).Scan(&main))
	died := func(offset int64, replay uuid.UUID, value []byte) bool {
		found, err := w.list.Died(t.Context(), billing.Origin{TopicID: main, Partition: 1, Offset: offset}, replay, proof.BodyHash(letter.Key, value))
		require.NoError(t, err)
		return found
	}
	require.True(t, died(7, uuid.Nil, letter.Value))
	require.False(t, died(7, replay, letter.Value), "its replay has not")
	require.False(t, died(7, uuid.Nil, []byte("another body")), "its letter has a forged origin")
	require.False(t, died(6, uuid.Nil, letter.Value))
	require.False(t, died(8, uuid.Nil, letter.Value))
}

// Whoever can write to a topic of ours can make a record die that claims to be another one. It must not hide that one.
func TestAForgedOriginHidesNoLetter(t *testing.T) {
	w := newWorld(t)
	order := uuid.New()
	forged, genuine, again := w.dead(order, 7), w.dead(order, 7), w.dead(order, 7)
	forged.Value = []byte("forged")
	genuine.Key, again.Key, forged.Key = []byte("k"), []byte("k"), []byte("k") // one partition: they are listed in this order
	w.kafka.Produce(forged)
	w.kafka.Produce(genuine)
	w.kafka.Produce(again)
	w.ingest(0)
	w.listed(3)
	require.Nil(t, w.letter(forged).DuplicateOf)
	require.Nil(t, w.letter(genuine).DuplicateOf)
	require.Equal(t, w.letter(genuine).ID, *w.letter(again).DuplicateOf)

	// Letters that were listed before bodies were compared are told by their origin alone.
	w.exec(`UPDATE dead_letters SET body_hash = NULL`)
	later := w.dead(order, 7)
	w.kafka.Produce(later)
	w.listed(4)
	require.Equal(t, w.letter(forged).ID, *w.letter(later).DuplicateOf, "the first")
}

func TestListingGoesOnWhereItStopped(t *testing.T) {
	w := newWorld(t)
	stop := w.ingest(0)
	for i := range 30 {
		w.kafka.Produce(w.dead(uuid.New(), int64(i)))
	}
	w.listed(30)
	stop()
	w.kafka.Produce(w.dead(uuid.New(), 30), w.dead(uuid.New(), 31))
	w.ingest(0)
	w.listed(32)

	ends, err := w.reader.Ends(t.Context(), w.ladder.DeadLetters())
	require.NoError(t, err)
	require.Equal(t, ends, w.positions(), "a position for every partition")
}

func TestAPositionBehindTheRowsLosesAndDoublesNothing(t *testing.T) {
	w := newWorld(t)
	stop := w.ingest(0)
	w.kafka.Produce(w.dead(uuid.New(), 1), w.dead(uuid.New(), 2))
	w.listed(2)
	stop()
	w.exec(`UPDATE dead_letter_positions SET next_offset = 0`) // as a restored backup would leave it
	w.kafka.Produce(w.dead(uuid.New(), 3))
	w.ingest(0)
	for _, l := range w.listed(3) {
		require.Nil(t, l.DuplicateOf, "a row is no duplicate of itself")
	}
}

func TestOneInstanceListsAndAnotherTakesOver(t *testing.T) {
	w := newWorld(t)
	stopA := w.ingest(300 * time.Millisecond)
	w.kafka.Produce(w.dead(uuid.New(), 1))
	w.listed(1)
	owner := w.owner()
	w.ingest(300 * time.Millisecond)
	w.kafka.Produce(w.dead(uuid.New(), 2))
	w.listed(2)
	require.Equal(t, owner, w.owner())

	stopA()
	w.kafka.Produce(w.dead(uuid.New(), 3))
	w.listed(3)
	require.NotEqual(t, owner, w.owner())
}

func TestAReaderThatLostItsLeaseWritesNothing(t *testing.T) {
	w := newWorld(t)
	var text logText
	w.log = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.ingest(time.Hour)
	w.kafka.Produce(w.dead(uuid.New(), 1))
	w.listed(1)
	w.exec(`UPDATE leases SET owner = gen_random_uuid()`) // as if it had been frozen for longer than its lease
	late := w.dead(uuid.New(), 2)
	w.kafka.Produce(late)
	testkit.Eventually(t, func() bool { return text.contains("listed by another instance") }, "the write is refused")
	_, err := w.list.At(t.Context(), late.Topic, place(late))
	require.ErrorIs(t, err, deadletter.ErrNotFound)
}

func TestNewPartitionsAreListed(t *testing.T) {
	w := newWorld(t)
	w.ingest(300 * time.Millisecond)
	w.kafka.Produce(w.dead(uuid.New(), 1))
	w.listed(1)
	_, err := w.kafka.Admin.UpdatePartitions(t.Context(), 5, w.ladder.DeadLetters())
	require.NoError(t, err)
	testkit.Eventually(t, func() bool { return len(w.positions()) == 5 }, "positions for the new partitions")
}

func TestFiltersAndPages(t *testing.T) {
	w := newWorld(t)
	order := uuid.New()
	w.kafka.Produce(w.dead(order, 1), w.dead(uuid.New(), 2, retry.HeaderErrorReason, "not_json", retry.HeaderErrorClass, "invalid"), w.dead(uuid.New(), 3))
	w.ingest(0)
	all := w.listed(3)
	for name, c := range map[string]struct {
		filter deadletter.Filter
		want   int
	}{
		"all":           {deadletter.Filter{}, 3},
		"state":         {deadletter.Filter{State: deadletter.Open}, 3},
		"other state":   {deadletter.Filter{State: deadletter.Dropped}, 0},
		"reason":        {deadletter.Filter{Reason: failure.NotJSON}, 1},
		"class":         {deadletter.Filter{Class: failure.ClassExhausted}, 2},
		"order":         {deadletter.Filter{OrderID: order}, 1},
		"from":          {deadletter.Filter{From: time.Now().Add(-time.Hour)}, 3},
		"to":            {deadletter.Filter{To: time.Now().Add(-time.Hour)}, 0},
		"before a page": {deadletter.Filter{Before: all[0].ID}, 2},
		"all at once":   {deadletter.Filter{State: deadletter.Open, Reason: failure.Provider5xx, Class: failure.ClassExhausted, OrderID: order, From: time.Unix(0, 0), To: time.Now().Add(time.Hour)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.filter.Limit = 10
			found, err := w.list.Find(t.Context(), w.ladder.DeadLetters(), c.filter)
			require.NoError(t, err)
			require.Len(t, found, c.want)
		})
	}
	ofOrder, err := w.list.OfOrder(t.Context(), order)
	require.NoError(t, err)
	require.Len(t, ofOrder, 1)
}

func TestIngesterSaysWhatItNeeds(t *testing.T) {
	_, err := deadletter.NewIngester(deadletter.IngesterConfig{}, nil, nil, nil, nil)
	require.ErrorContains(t, err, "required")
}

func (w *world) positions() map[int32]int64 {
	w.t.Helper()
	next := map[int32]int64{}
	rows, err := w.db.Pool.Query(w.t.Context(), `SELECT partition, next_offset FROM dead_letter_positions`)
	require.NoError(w.t, err)
	defer rows.Close()
	for rows.Next() {
		var p int32
		var n int64
		require.NoError(w.t, rows.Scan(&p, &n))
		next[p] = n
	}
	require.NoError(w.t, rows.Err())
	return next
}

func (w *world) owner() (owner string) {
	w.t.Helper()
	err := w.db.Pool.QueryRow(w.t.Context(), `SELECT owner::text FROM leases WHERE name = $1`, fmt.Sprintf("dead-letters:%s", w.ladder.DeadLetters())).Scan(&owner)
	require.NoError(w.t, err)
	return owner
}

// logText keeps what was logged.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) contains(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}
