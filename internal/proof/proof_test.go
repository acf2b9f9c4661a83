package proof

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

const (
	mainTopic = "orders.confirmed"
	tierTopic = "orders.confirmed.retry-5s"
)

var someReplay = uuid.MustParse("6f1b1f0e-7a6e-4d0b-9a55-3c1f4f6f2b10")

var (
	testLadder = retry.NewLadder(mainTopic, "billing", []time.Duration{5 * time.Second, 30 * time.Second})
	testNow    = time.UnixMilli(1_800_000_000_000)
	someOrder  = uuid.MustParse("0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a01")
)

// record is an order's record of the main topic.
type record struct {
	topic  string
	part   int32
	offset int64
	order  uuid.UUID
}

// scene plays the books and the router.
type scene struct {
	sentOn   map[record]bool
	replayed map[uuid.UUID]Replay
	err      error
	fateErr  error
	fates    []retry.Fate
	setbacks []failure.Reason
}

func (s *scene) SentOn(_ context.Context, topic string, part int32, offset int64, order uuid.UUID) (bool, error) {
	return s.sentOn[record{topic, part, offset, order}], s.err
}

func (s *scene) Replayed(_ context.Context, id uuid.UUID) (*Replay, error) {
	if r, ok := s.replayed[id]; ok {
		return &r, s.err
	}
	return nil, s.err
}

func (s *scene) RecordFate(_ context.Context, f retry.Fate) error {
	s.fates = append(s.fates, f)
	return s.fateErr
}

func (s *scene) Setback(_ retry.Envelope, _ string, err error, other failure.Reason) error {
	s.setbacks = append(s.setbacks, other)
	return err
}

func (s *scene) open(t *testing.T, m kafkaclient.Message, order uuid.UUID) (retry.Envelope, error) {
	t.Helper()
	o := &Opener{Ladder: testLadder, Books: s, Router: s, Clock: func() time.Time { return testNow }, Log: slog.New(slog.DiscardHandler)}
	return o.Open(t.Context(), m, order)
}

func header(k, v string) kafkaclient.Header { return kafkaclient.Header{Key: k, Value: []byte(v)} }

func message(topic string, hs ...kafkaclient.Header) kafkaclient.Message {
	return kafkaclient.Message{Topic: topic, Partition: 2, Offset: 7, Key: []byte("k"), Value: []byte("v"), Headers: hs, Timestamp: testNow.Add(-time.Second)}
}

// of is a message whose headers speak of record 5/99 of the topic.
func of(topic, origin string, more ...kafkaclient.Header) kafkaclient.Message {
	return message(topic, append(more, header(retry.HeaderOriginalTopic, origin), header(retry.HeaderOriginalPartition, "5"), header(retry.HeaderOriginalOffset, "99"),
		header(retry.HeaderOriginalTimestamp, "1700000000000"), header(retry.HeaderFirstFailureAt, "1700000001000"))...)
}

func replayOf(topic string, more ...kafkaclient.Header) kafkaclient.Message {
	return of(topic, mainTopic, append(more, header(retry.HeaderAttempt, "0"), header(retry.HeaderReplayCount, "7"), header(retry.HeaderReplayID, someReplay.String()))...)
}

func theReplay(change ...func(*Replay)) map[uuid.UUID]Replay {
	r := Replay{OriginTopic: mainTopic, OriginPart: 5, OriginOffset: 99, BodyHash: BodyHash([]byte("k"), []byte("v")), Count: 2}
	for _, c := range change {
		c(&r)
	}
	return map[uuid.UUID]Replay{someReplay: r}
}

// What headers say of another record counts only if the books say so, too. Nothing else that they claim is lost by that: the
// message is an order of its own.
func TestHeadersCountOnlyIfTheBooksAgree(t *testing.T) {
	waiting := map[record]bool{{mainTopic, 5, 99, someOrder}: true}
	other := map[record]bool{{mainTopic, 5, 99, uuid.Max}: true}
	for _, c := range []struct {
		name     string
		m        kafkaclient.Message
		sentOn   map[record]bool
		replayed map[uuid.UUID]Replay
		standsIn bool // for 5/99
		replay   bool
		stopped  bool
		fate     string // written for the record itself
	}{
		{name: "an order arrives", m: message(mainTopic)},
		{name: "main: an origin", m: of(mainTopic, mainTopic), sentOn: waiting},
		{name: "main: a replay that nobody made", m: replayOf(mainTopic), sentOn: waiting},
		{name: "main: a replay", m: replayOf(mainTopic), replayed: theReplay(), standsIn: true, replay: true, fate: "replay"},
		{name: "main: a replay's headers on another body", m: replayOf(mainTopic), replayed: theReplay(func(r *Replay) { r.BodyHash = BodyHash([]byte("k"), []byte("w")) })},
		{name: "main: a replay of another origin", m: replayOf(mainTopic), replayed: theReplay(func(r *Replay) { r.OriginOffset = 98 }), replay: true},
		{name: "main: a replay of a letter without an origin", m: replayOf(mainTopic), replayed: theReplay(func(r *Replay) { *r = Replay{Count: 2} }), replay: true},
		{name: "main: a replay that was taken back", m: replayOf(mainTopic), replayed: theReplay(func(r *Replay) { r.TakenBack = true }), standsIn: true, replay: true, stopped: true, fate: "replay"},
		{name: "main: two replay ids", m: replayOf(mainTopic, header(retry.HeaderReplayID, uuid.NewString())), replayed: theReplay()},
		{name: "tier: no headers", m: message(tierTopic)},
		{name: "tier: sent on", m: of(tierTopic, mainTopic), sentOn: waiting, standsIn: true},
		{name: "tier: another order was sent on", m: of(tierTopic, mainTopic), sentOn: other},
		{name: "tier: nothing was sent on", m: of(tierTopic, mainTopic)},
		{name: "tier: an origin that is no topic", m: of(tierTopic, "a b"), sentOn: waiting},
		{name: "tier: a replay", m: replayOf(tierTopic), replayed: theReplay(), standsIn: true, replay: true},
		{name: "tier: a replay listed before bodies were", m: replayOf(tierTopic), replayed: theReplay(func(r *Replay) { r.BodyHash = nil }), standsIn: true, replay: true},
		{name: "tier: a replay that is not on the list any more", m: replayOf(tierTopic), sentOn: waiting, stopped: true},
		{name: "tier: a replay that was taken back", m: replayOf(tierTopic), replayed: theReplay(func(r *Replay) { r.TakenBack = true }), standsIn: true, replay: true, stopped: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scene{sentOn: c.sentOn, replayed: c.replayed}
			e, err := s.open(t, c.m, someOrder)
			require.NoError(t, err)
			want, at := []any{c.m.Topic, int32(2), int64(7)}, c.m.Timestamp
			if c.standsIn {
				want, at = []any{mainTopic, int32(5), int64(99)}, time.UnixMilli(1_700_000_000_000)
				require.Equal(t, time.UnixMilli(1_700_000_001_000), e.FirstFailure)
			}
			require.Equal(t, want, []any{e.OriginTopic, e.OriginPart, e.OriginOffset})
			require.Equal(t, at, e.OriginTime)
			if c.replay {
				require.Equal(t, []any{someReplay, 2}, []any{e.ReplayID, e.ReplayCount}, "the count is the list's, not the header's")
			} else {
				require.Equal(t, []any{uuid.Nil, 0}, []any{e.ReplayID, e.ReplayCount})
			}
			require.Equal(t, c.stopped, e.Stopped != nil)
			if c.stopped {
				require.Equal(t, failure.Stopped, failure.Of(e.Stopped).Reason)
			}
			var fates []string
			for _, f := range s.fates {
				require.Equal(t, []any{c.m.Topic, int32(2), int64(7)}, []any{f.Topic, f.Partition, f.Offset})
				fates = append(fates, f.Kind)
			}
			require.Equal(t, c.fate != "", len(fates) == 1 && fates[0] == c.fate, fates)
		})
	}
}

// An order that cannot be told, since the message killed the process, is not held against it.
func TestAMessageThatIsGivenUpUndecodedKeepsItsOrigin(t *testing.T) {
	s := &scene{sentOn: map[record]bool{{mainTopic, 5, 99, uuid.Nil}: true}}
	e, err := s.open(t, of(tierTopic, mainTopic), uuid.Nil)
	require.NoError(t, err)
	require.EqualValues(t, 99, e.OriginOffset)
}

func TestBooksThatCannotBeAskedHoldTheMessage(t *testing.T) {
	down := errors.New("connection refused")
	for _, s := range []*scene{{err: down}, {replayed: theReplay(), fateErr: down}} {
		_, err := s.open(t, replayOf(mainTopic), someOrder)
		require.ErrorIs(t, err, down, "what is no order that arrived is noted before it is handled")
		require.Equal(t, []failure.Reason{failure.DatabaseDown}, s.setbacks)
	}
	for _, m := range []kafkaclient.Message{of(tierTopic, mainTopic), replayOf(tierTopic)} {
		_, err := (&scene{err: down}).open(t, m, someOrder)
		require.ErrorIs(t, err, down)
	}
}

func TestBodyHashTellsBodiesApart(t *testing.T) {
	seen := map[string]bool{}
	bodies := [][2][]byte{{nil, nil}, {{}, nil}, {nil, {}}, {{}, {}}, {[]byte("a"), []byte("b")}, {[]byte("ab"), {}}, {{}, []byte("ab")}, {[]byte("ab"), nil}, {nil, []byte("ab")}}
	for _, b := range bodies {
		seen[string(BodyHash(b[0], b[1]))] = true
	}
	require.Len(t, seen, len(bodies))
}

// The approver's decision is believed as the replay is: by the list, and by no header.
func TestALiftedAgeComesFromTheList(t *testing.T) {
	m := kafkaclient.Message{Topic: mainTopic, Value: []byte("x"), Headers: []kafkaclient.Header{{Key: retry.HeaderReplayID, Value: []byte(someReplay.String())}}}
	for _, lifted := range []bool{true, false} {
		s := &scene{replayed: map[uuid.UUID]Replay{someReplay: {AgeLifted: lifted, Count: 1}}}
		e, err := s.open(t, m, someOrder)
		require.NoError(t, err)
		require.Equal(t, lifted, e.AgeLifted)
	}
	forged, err := (&scene{}).open(t, m, someOrder)
	require.NoError(t, err)
	require.False(t, forged.AgeLifted)
}
