package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/hold"
	"example.com/billing/internal/platform/crash"
	"example.com/billing/internal/platform/kafkaclient"
)

// Publisher writes a record and returns when all in-sync replicas have it.
type Publisher interface {
	Publish(ctx context.Context, r kafkaclient.Record) error
}

// Line says whose fault a failure is, knowing how other orders fare. hold.Line is the one implementation.
type Line interface {
	Judge(a hold.Attempt, f *failure.Error) failure.Fault
	Verdict(record string, f *failure.Error)
	MayTry(record string) bool
	Published(record, topic string)
}

// Ledger keeps the fate of records (hazard H18), bodies that fit no topic (hazard H14), and the list of dead letters.
type Ledger interface {
	RecordFate(ctx context.Context, f Fate) error
	Listed(ctx context.Context, e Envelope) (bool, error)
	Park(ctx context.Context, r kafkaclient.Record) (uuid.UUID, error)
}

// Fate is where a record of the main topic ended, for now.
type Fate struct {
	Topic     string
	Partition int32
	Offset    int64
	Order     uuid.UUID // zero: the record could not be decoded
	Kind      string    // "duplicate", "waiting", "dead", or "replay": it stands for another record, which has the fate
	Reason    failure.Reason
	Step      int64 // how far the message had come: "waiting" of an earlier step replaces nothing
}

// Outcome is what became of a message.
type Outcome struct {
	Order      uuid.UUID // zero: not decoded
	Err        error     // nil: charged
	Duplicate  bool      // charged before
	SameRecord bool      // charged before, for this very record
}

// RouterConfig wires a router.
type RouterConfig struct {
	Ladder    Ladder
	Line      Line
	Publisher Publisher
	Ledger    Ledger
	Clock     func() time.Time
	Log       *slog.Logger
	Observe   func(topic, outcome string) // billing_messages_total
}

// Router gives every message that comes back from a charge its next place.
type Router struct{ cfg RouterConfig }

// NewRouter makes a router.
func NewRouter(cfg RouterConfig) *Router { return &Router{cfg} }

// Route returns nil when the message's fate is durable: it was charged, or the retry or dead-letter record that stands
// for it was acknowledged by the broker. An error means that nobody has taken responsibility: the offset may not move.
func (r *Router) Route(ctx context.Context, e Envelope, o Outcome) error {
	order := ""
	if o.Order != uuid.Nil {
		order = o.Order.String()
	}
	attempt := hold.Attempt{
		Record: e.Message.Name(), Order: order, Began: e.Opened, Earlier: e.Failures + e.Waits,
		First: e.Rank == 0 && e.Message.Tries == 0, Last: e.Failures >= len(r.cfg.Ladder.Tiers()),
	}
	if o.Err == nil {
		attempt.Answered = !o.Duplicate
		r.cfg.Line.Judge(attempt, nil)
		return r.charged(ctx, e, o)
	}
	f := failure.Of(o.Err)
	attempt.Answered = f.Answered
	fault := r.cfg.Line.Judge(attempt, f)
	step := r.cfg.Ladder.Next(e, f, fault, r.cfg.Clock())
	if step.Kind == ToDeadLetters && f.Verdict == failure.NotAsked {
		if err := r.verdict(ctx, e, f); err != nil {
			return r.setback(e, order, "", err, failure.DatabaseDown)
		}
	}
	if f.Verdict == failure.Withheld {
		fault, step = failure.OfSystem, Step{Kind: InMemory, After: withheldRecheck}
	}
	if step.Kind == InMemory {
		return r.stay(e, f, fault, step)
	}
	to, err := r.publish(ctx, e, o, f, step)
	if err != nil {
		return r.unpublished(e, order, to, err)
	}
	crash.At(crash.AfterRetryPublish)
	r.cfg.Line.Published(attempt.Record, to)
	if to != step.Topic { // it was too large for a retry topic
		step = r.cfg.Ladder.dead(step.Failures)
	}
	r.logStep(e, order, f, step)
	return nil
}

// verdict asks the line, unless the message is listed as dead: one that is delivered again is no new death, and would keep a
// flood alive that is over.
func (r *Router) verdict(ctx context.Context, e Envelope, f *failure.Error) error {
	listed, err := r.cfg.Ledger.Listed(ctx, e)
	switch {
	case err != nil:
		return err
	case listed:
		f.Verdict = failure.Dies
	default:
		r.cfg.Line.Verdict(e.Message.Name(), f)
	}
	return nil
}

func (r *Router) charged(ctx context.Context, e Envelope, o Outcome) error {
	if !o.Duplicate {
		r.cfg.Observe(e.Message.Topic, "charged")
		return nil
	}
	if !o.SameRecord {
		if err := r.cfg.Ledger.RecordFate(ctx, e.fate(o.Order, "duplicate", "")); err != nil {
			return err
		}
	}
	r.cfg.Observe(e.Message.Topic, "duplicate")
	return nil
}

// stay hands the message back to the consumer, uncounted.
func (r *Router) stay(e Envelope, f *failure.Error, fault failure.Fault, step Step) error {
	if fault == failure.OfSystem || fault == failure.OfSuspect {
		r.cfg.Observe(e.Message.Topic, "held")
	}
	asked := fault == failure.OfSuspect || f.Reason.Outage().Cure() == failure.ByAnswer
	return &Later{After: step.After, Err: f, Whole: asked || f.Verdict == failure.Withheld}
}

// publish writes the fate first and the record second: a crash between them redelivers the message, which writes both
// again. A cancelled context means that the partition is gone, and then nothing is published (hazard H17). It tells which
// topic took the record, or did not.
func (r *Router) publish(ctx context.Context, e Envelope, o Outcome, f *failure.Error, step Step) (to string, err error) {
	kind := "waiting"
	if step.Kind == ToDeadLetters {
		kind = "dead"
	}
	if err := r.cfg.Ledger.RecordFate(ctx, e.fate(o.Order, kind, f.Reason)); err != nil {
		return step.Topic, err
	}
	if err := ctx.Err(); err != nil {
		return step.Topic, err
	}
	crash.At(crash.BeforeRetryPublish)
	record := e.Record(step, f, r.cfg.Clock())
	err = r.cfg.Publisher.Publish(ctx, record)
	if errors.Is(err, kafkaclient.ErrTooLarge) {
		record.Headers = withoutText(record.Headers)
		err = r.cfg.Publisher.Publish(ctx, record)
	}
	if errors.Is(err, kafkaclient.ErrTooLarge) {
		return r.cfg.Ladder.DeadLetters(), r.publishParked(ctx, e, o, f, record)
	}
	return step.Topic, err
}

// withoutText leaves out what a record can do without when it does not fit: the error's text; class and reason stay.
func withoutText(hs []kafkaclient.Header) []kafkaclient.Header {
	return slices.DeleteFunc(hs, func(h kafkaclient.Header) bool { return h.Key == HeaderError })
}

// publishParked keeps key and value in the database and publishes a pointer to them, into the dead letters: an order near
// the broker's limit whose headers made it too large must not be lost (hazard H14). Replay restores it byte for byte. The
// pointer must fit, or it would hold the line for ever: so a large key does not stand in it.
func (r *Router) publishParked(ctx context.Context, e Envelope, o Outcome, f *failure.Error, record kafkaclient.Record) error {
	id, err := r.cfg.Ledger.Park(ctx, record)
	if err != nil {
		return err
	}
	if err := r.cfg.Ledger.RecordFate(ctx, e.fate(o.Order, "dead", f.Reason)); err != nil {
		return err
	}
	record.Topic = r.cfg.Ladder.DeadLetters()
	record.Value = nil
	if len(record.Key) > maxForeign {
		record.Key = nil
	}
	record.Headers = append(record.Headers, kafkaclient.Header{Key: HeaderParked, Value: []byte(id.String())})
	return r.cfg.Publisher.Publish(ctx, record)
}

// unpublished judges why the record of a message did not get into its topic. Brokers that work and refuse it are another
// matter than brokers that do not answer.
func (r *Router) unpublished(e Envelope, order, to string, err error) error {
	reason := failure.BrokerDown
	if errors.Is(err, kafkaclient.ErrRefused) {
		reason = failure.PublishRefused
	}
	m := e.Message
	return r.setback(e, order, to, fmt.Errorf("the record that stands for %s[%d]@%d: %w", m.Topic, m.Partition, m.Offset, err), reason)
}

// Setback judges the failure to read or write the message's fate: the database's, never the message's. other is the reason of
// an error that has none.
func (r *Router) Setback(e Envelope, order string, err error, other failure.Reason) error {
	return r.setback(e, order, "", err, other)
}

func (r *Router) setback(e Envelope, order, to string, err error, other failure.Reason) error {
	f := failure.Of(err)
	if f.Reason == failure.Unclassified {
		f = failure.New(other, "%w", err)
	}
	r.cfg.Line.Judge(hold.Attempt{Record: e.Message.Name(), Order: order, Began: r.cfg.Clock(), To: to}, f)
	return r.stay(e, f, failure.OfSystem, Step{After: holdRecheck})
}

func (r *Router) logStep(e Envelope, order string, f *failure.Error, step Step) {
	level, outcome := slog.LevelInfo, "retried"
	if step.Kind == ToDeadLetters {
		level, outcome = slog.LevelWarn, "dead"
	}
	r.cfg.Observe(e.Message.Topic, outcome)
	r.cfg.Log.Log(context.Background(), level, "message "+outcome, "topic", e.Message.Topic, "partition", e.Message.Partition, "offset", e.Message.Offset,
		"order_id", order, "reason", f.Reason, "class", f.Class(), "failures", step.Failures, "to", step.Topic, "error", clip(f.Detail, maxErrorText))
}

// Admit keeps a message back whose verdict is withheld, until there is a reason to judge it anew.
func (r *Router) Admit(next kafkaclient.Handler) kafkaclient.Handler {
	return func(ctx context.Context, m kafkaclient.Message) error {
		if !r.cfg.Line.MayTry(m.Name()) {
			return &Later{After: withheldRecheck/2 + rand.N(withheldRecheck/2), Err: errWithheld}
		}
		return next(ctx, m)
	}
}

var errWithheld = errors.New("too many messages die: its verdict waits")

// fate is the fate of the record that the message stands for.
func (e Envelope) fate(order uuid.UUID, kind string, reason failure.Reason) Fate {
	return Fate{Topic: e.OriginTopic, Partition: e.OriginPart, Offset: e.OriginOffset, Order: order, Kind: kind, Reason: reason, Step: e.step(kind)}
}

// step grows along the way of a message: with each replay, each failure, each wait, and at the end of the way.
func (e Envelope) step(kind string) int64 {
	end := int64(1)
	if kind == "waiting" {
		end = 0
	}
	return int64(e.ReplayCount)<<20 | int64(e.Failures)<<12 | int64(min(e.Waits, 1<<11-1))<<1 | end
}

// Later asks the consumer to handle the message again. It is an error: nobody has taken responsibility.
type Later struct {
	After time.Duration
	Err   error
	Whole bool // the attempt was made to its end: what waits is what becomes of the message
}

func (l *Later) Error() string { return fmt.Sprintf("again in %s: %v", l.After, l.Err) }

func (l *Later) Unwrap() error { return l.Err }

// RetryIn is how long the consumer should wait.
func (l *Later) RetryIn() time.Duration { return l.After }

// Survived reports whether the process has outlived the handling of the message.
func (l *Later) Survived() bool { return l.Whole }
