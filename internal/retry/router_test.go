package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/hold"
	"example.com/billing/internal/platform/kafkaclient"
)

// scene plays line, broker and database, and writes down in which order they were used.
type scene struct {
	events     []string
	flood      bool
	listed     bool
	listErr    error
	attempts   []hold.Attempt
	fault      failure.Fault // of every failure; 0: the table's
	publishErr []error       // returned first, one a try
	fateErr    error
	onFate     func()
	records    []kafkaclient.Record
	fates      []Fate
	observed   []string
}

func (s *scene) Judge(a hold.Attempt, f *failure.Error) failure.Fault {
	s.attempts = append(s.attempts, a)
	if f == nil {
		s.events = append(s.events, "judged well")
		return 0
	}
	s.events = append(s.events, "judged "+string(f.Reason))
	if s.fault != 0 {
		return s.fault
	}
	return f.Fault(failure.Hold)
}

func (s *scene) Verdict(_ string, f *failure.Error) {
	if f.Verdict = failure.Dies; s.flood {
		f.Verdict = failure.Withheld
	}
	s.events = append(s.events, "verdict")
}

func (s *scene) MayTry(string) bool { return !s.flood }

func (s *scene) Published(string, string) { s.events = append(s.events, "published") }

func (s *scene) RecordFate(_ context.Context, f Fate) error {
	s.events = append(s.events, "fate "+f.Kind)
	s.fates = append(s.fates, f)
	if s.onFate != nil {
		s.onFate()
	}
	return s.fateErr
}

func (s *scene) Listed(context.Context, Envelope) (bool, error) { return s.listed, s.listErr }

func (s *scene) Park(_ context.Context, r kafkaclient.Record) (uuid.UUID, error) {
	s.events = append(s.events, fmt.Sprintf("parked %d bytes", len(r.Value)))
	return uuid.Max, nil
}

func (s *scene) Publish(_ context.Context, r kafkaclient.Record) error {
	s.events = append(s.events, "publish "+r.Topic)
	s.records = append(s.records, r)
	if len(s.publishErr) > 0 {
		err := s.publishErr[0]
		s.publishErr = s.publishErr[1:]
		return err
	}
	return nil
}

func (s *scene) router() *Router {
	return NewRouter(RouterConfig{
		Ladder: testLadder, Line: s, Publisher: s, Ledger: s, Clock: func() time.Time { return testNow }, Log: slog.New(slog.DiscardHandler),
		Observe: func(topic, outcome string) { s.observed = append(s.observed, topic+" "+outcome) },
	})
}

func (s *scene) route(ctx context.Context, o Outcome) error {
	return s.router().Route(ctx, testLadder.Open(message("orders.confirmed"), testNow), o)
}

var someOrder = uuid.MustParse("0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a01")

func TestChargedNeedsNothingMore(t *testing.T) {
	s := &scene{}
	require.NoError(t, s.route(t.Context(), Outcome{Order: someOrder}))
	require.Equal(t, []string{"judged well"}, s.events)
	require.Equal(t, []string{"orders.confirmed charged"}, s.observed)
}

func TestDuplicates(t *testing.T) {
	s := &scene{}
	require.NoError(t, s.route(t.Context(), Outcome{Order: someOrder, Duplicate: true}))
	require.Equal(t, []string{"judged well", "fate duplicate"}, s.events)
	s = &scene{}
	require.NoError(t, s.route(t.Context(), Outcome{Order: someOrder, Duplicate: true, SameRecord: true}))
	require.Equal(t, []string{"judged well"}, s.events, "the record was charged, not repeated: it keeps that fate")
	s = &scene{fateErr: errors.New("database gone")}
	require.Error(t, s.route(t.Context(), Outcome{Order: someOrder, Duplicate: true}))
}

// The fate is written, then the record is published and awaited, then the offset may move.
func TestRetriedAndDead(t *testing.T) {
	s := &scene{}
	require.NoError(t, s.route(t.Context(), Outcome{Order: someOrder, Err: failure.New(failure.Provider5xx, "503")}))
	require.Equal(t, []string{"judged provider_5xx", "fate waiting", "publish orders.confirmed.retry-5s", "published"}, s.events)
	require.Equal(t, Fate{Topic: "orders.confirmed", Partition: 2, Offset: 7, Order: someOrder, Kind: "waiting", Reason: failure.Provider5xx}, s.fates[0])
	require.Equal(t, []string{"orders.confirmed retried"}, s.observed)

	s = &scene{}
	require.NoError(t, s.route(t.Context(), Outcome{Err: failure.New(failure.NotJSON, "at byte 0")}))
	require.Equal(t, []string{"judged not_json", "verdict", "fate dead", "publish orders.confirmed.dlq", "published"}, s.events)
	require.Equal(t, uuid.Nil, s.fates[0].Order)
	require.Equal(t, []string{"orders.confirmed dead"}, s.observed)
}

func TestUnpublishedIsKeptAndHeld(t *testing.T) {
	s := &scene{publishErr: []error{errors.New("not acknowledged")}}
	err := s.route(t.Context(), Outcome{Order: someOrder, Err: failure.New(failure.Provider5xx, "503")})
	later, ok := errors.AsType[*Later](err)
	require.True(t, ok, err)
	require.Positive(t, later.RetryIn())
	require.Equal(t, "judged broker_down", s.events[len(s.events)-1])
	require.Equal(t, []string{"orders.confirmed held"}, s.observed, "not counted as retried")

	s = &scene{publishErr: []error{fmt.Errorf("publish to orders.confirmed.dlq: %w: no permission", kafkaclient.ErrRefused)}}
	err = s.route(t.Context(), Outcome{Order: someOrder, Err: failure.New(failure.Declined, "402")})
	require.ErrorContains(t, err, "orders.confirmed[2]@7", "what was to be published")
	require.ErrorContains(t, err, "publish to orders.confirmed.dlq: refused by the broker: no permission")
	require.Equal(t, "judged publish_refused", s.events[len(s.events)-1])
	require.Equal(t, "orders.confirmed.dlq", s.attempts[len(s.attempts)-1].To)

	s = &scene{fateErr: failure.New(failure.DatabaseDown, "refused")}
	require.Error(t, s.route(t.Context(), Outcome{Order: someOrder, Err: failure.New(failure.Declined, "402")}))
	require.Empty(t, s.records, "no record without a fate")
	require.Equal(t, "judged database_down", s.events[len(s.events)-1])
}

// H17: a partition that is gone publishes nothing.
func TestLostAssignmentPublishesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &scene{onFate: cancel}
	require.Error(t, s.route(ctx, Outcome{Order: someOrder, Err: failure.New(failure.Provider5xx, "503")}))
	require.Empty(t, s.records)
}

func TestHeldStaysHere(t *testing.T) {
	s := &scene{fault: failure.OfSystem}
	err := s.route(t.Context(), Outcome{Order: someOrder, Err: failure.New(failure.ProviderDown, "down")})
	_, ok := errors.AsType[*Later](err)
	require.True(t, ok)
	require.Equal(t, []string{"judged provider_down"}, s.events, "no fate, no record")
}

// H14: a record that does not fit goes without the error's text; one that fits no topic at all goes to the dead letters as
// a pointer to its body.
func TestTooLargeIsTrimmedThenParked(t *testing.T) {
	tooLarge := fmt.Errorf("publish: %w", kafkaclient.ErrTooLarge)
	s := &scene{publishErr: []error{tooLarge}}
	require.NoError(t, s.route(t.Context(), Outcome{Order: someOrder, Err: failure.New(failure.Provider5xx, "503")}))
	trimmed := s.records[1]
	require.Equal(t, []byte("v"), trimmed.Value)
	for _, h := range trimmed.Headers {
		require.NotEqual(t, HeaderError, h.Key)
	}

	s = &scene{publishErr: []error{tooLarge, tooLarge}}
	require.NoError(t, s.route(t.Context(), Outcome{Order: someOrder, Err: failure.New(failure.Provider5xx, "503")}))
	require.Equal(t, []string{"judged provider_5xx", "fate waiting", "publish orders.confirmed.retry-5s", "publish orders.confirmed.retry-5s", "parked 1 bytes", "fate dead", "publish orders.confirmed.dlq", "published"}, s.events)
	require.Equal(t, []string{"orders.confirmed dead"}, s.observed, "it is not called retried")
	dead := s.records[2]
	require.Nil(t, dead.Value)
	require.Equal(t, []byte("k"), dead.Key)
	require.Equal(t, HeaderParked, dead.Headers[len(dead.Headers)-1].Key)
}

// A key of a megabyte would make the pointer too large, too, and hold the line for ever. It is parked with the body.
func TestAPointerHasNoLargeKey(t *testing.T) {
	tooLarge := fmt.Errorf("publish: %w", kafkaclient.ErrTooLarge)
	s := &scene{publishErr: []error{tooLarge, tooLarge}}
	m := message("orders.confirmed", header("tenant", "a"))
	m.Key = make([]byte, 1<<20)
	require.NoError(t, s.router().Route(t.Context(), testLadder.Open(m, testNow), Outcome{Order: someOrder, Err: failure.New(failure.Provider5xx, "503")}))
	require.Len(t, s.records, 3)
	require.Nil(t, s.records[2].Key)
	require.Nil(t, s.records[2].Value)
	require.Equal(t, "tenant", s.records[2].Headers[0].Key)
}

// Too many messages die: a verdict is neither stored nor published, and the message stays where it is (hazards H25, H26).
func TestAWithheldVerdictLeavesNothingBehind(t *testing.T) {
	for name, f := range map[string]*failure.Error{
		"asked here":                      failure.New(failure.NotJSON, "at byte 0"),
		"asked before it was settled":     {Reason: failure.Declined, Verdict: failure.Withheld},
		"given up after counted failures": {Reason: failure.Provider5xx},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{flood: true}
			m := message("orders.confirmed", header(HeaderAttempt, "3"))
			err := s.router().Route(t.Context(), testLadder.Open(m, testNow), Outcome{Order: someOrder, Err: f})
			later, ok := errors.AsType[*Later](err)
			require.True(t, ok, err)
			require.Positive(t, later.RetryIn())
			require.Empty(t, s.records)
			require.Empty(t, s.fates)
			require.Equal(t, []string{"orders.confirmed held"}, s.observed)
			handled := 0
			again := s.router().Admit(func(context.Context, kafkaclient.Message) error { handled++; return nil })
			require.ErrorIs(t, again(t.Context(), m), errWithheld)
			require.Zero(t, handled)
			s.flood = false
			require.NoError(t, again(t.Context(), m))
			require.Equal(t, 1, handled)
		})
	}
}

// A record that is listed as dead and is delivered again is no new death, and does not keep a flood alive.
func TestWhatIsListedAsDeadDiesAgainUnasked(t *testing.T) {
	s := &scene{flood: true, listed: true}
	require.NoError(t, s.route(t.Context(), Outcome{Err: failure.New(failure.NotJSON, "at byte 0")}))
	require.Equal(t, []string{"judged not_json", "fate dead", "publish orders.confirmed.dlq", "published"}, s.events)

	s = &scene{listErr: errors.New("database gone")}
	_, later := errors.AsType[*Later](s.route(t.Context(), Outcome{Err: failure.New(failure.NotJSON, "at byte 0")}))
	require.True(t, later)
	require.Equal(t, []string{"judged not_json", "judged database_down"}, s.events, "nothing is decided")
}

// Whoever handles one message at a time after crashes goes on behind one that was handled to its end and waits.
func TestWhatTheProcessHasOutlived(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     scene
		err   error
		whole bool
	}{
		{"its verdict is withheld", scene{flood: true}, failure.New(failure.NotJSON, "at byte 0"), true},
		{"others must tell", scene{}, failure.New(failure.ProviderUnauthorized, "401"), true},
		{"the provider is down", scene{fault: failure.OfSystem}, failure.New(failure.ProviderDown, "503"), true},
		{"the claim of a process that died", scene{}, failure.New(failure.OrderBusy, "in flight"), false},
		{"no database", scene{}, failure.New(failure.DatabaseDown, "refused"), false},
		{"a stop", scene{}, context.Canceled, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			later, ok := errors.AsType[*Later](c.s.route(t.Context(), Outcome{Order: someOrder, Err: c.err}))
			require.True(t, ok)
			require.Equal(t, c.whole, later.Survived())
		})
	}
}

// A verdict that was given before the order was settled is not asked for again: it counts once.
func TestAVerdictIsAskedForOnce(t *testing.T) {
	s := &scene{flood: true}
	err := s.route(t.Context(), Outcome{Order: someOrder, Err: &failure.Error{Reason: failure.Declined, Verdict: failure.Dies}})
	require.NoError(t, err)
	require.NotContains(t, s.events, "verdict")
	require.Len(t, s.records, 1)
}
