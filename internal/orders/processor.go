package orders

import (
	"context"
	"errors"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// Charger charges an order exactly once. billing.Service is the one implementation.
type Charger interface {
	Charge(ctx context.Context, o billing.Order) (billing.Receipt, error)
}

// Opener tells what a message stands for; an error hands it back. proof.Opener is the one implementation.
type Opener interface {
	Open(ctx context.Context, m kafkaclient.Message, order uuid.UUID) (retry.Envelope, error)
}

// Ledger knows whether money may have moved for an order. pgstore.Store is the one implementation.
type Ledger interface {
	Moved(ctx context.Context, order uuid.UUID) (billing.Moved, error)
}

// Router gives a message its next place. retry.Router is the one implementation.
type Router interface {
	Route(ctx context.Context, e retry.Envelope, o retry.Outcome) error
	Setback(e retry.Envelope, order string, err error, other failure.Reason) error
}

// ProcessorConfig wires a processor.
type ProcessorConfig struct {
	Opener   Opener
	Charger  Charger
	Ledger   Ledger
	Router   Router
	Currency string                       // of events that name none
	TopicID  func(topic string) uuid.UUID // of the main topic's present incarnation
	MaxAge   time.Duration                // orders older than this are not charged any more; 0: off
	Window   time.Duration                // records older than this may have been sent by a database that was lost (hazard H3)
	Clock    func() time.Time
}

// Processor handles the messages of the main topic and of the retry tiers alike.
type Processor struct{ cfg ProcessorConfig }

// NewProcessor makes a processor.
func NewProcessor(cfg ProcessorConfig) *Processor { return &Processor{cfg} }

// Process is the whole service in one sentence: a confirmed order arrives; it is charged exactly once; if that fails for a
// passing reason it waits and is tried again; if it cannot succeed, a person decides.
//
// Its contract is the heart of the service. nil: the message's fate is durable, the offset may move. An error: nobody has
// taken responsibility, it may not.
func (p *Processor) Process(ctx context.Context, m kafkaclient.Message) error {
	event, err := p.decode(m)
	envelope, unproven := p.cfg.Opener.Open(ctx, m, event.OrderID)
	if unproven != nil {
		return unproven
	}
	var receipt billing.Receipt
	if err == nil {
		receipt, err = p.charge(ctx, envelope, event)
	}
	if u, ok := errors.AsType[*unaskedError](err); ok {
		return p.cfg.Router.Setback(envelope, event.OrderID.String(), u.error, failure.DatabaseDown)
	}
	return p.cfg.Router.Route(ctx, envelope, retry.Outcome{
		Order: event.OrderID, Err: err, Duplicate: receipt.Duplicate, SameRecord: receipt.SameRecord,
	})
}

func (p *Processor) decode(m kafkaclient.Message) (event OrderConfirmed, err error) {
	defer func() { err = recovered(recover(), err) }()
	return Decode(m.Value, p.cfg.Currency)
}

// charge asks for the money, unless the order is too old or a person has stopped it. A verdict that no claim has given says
// nothing of earlier attempts, so the order's row is read first: what may have moved money is unknown (hazard H31).
func (p *Processor) charge(ctx context.Context, e retry.Envelope, event OrderConfirmed) (r billing.Receipt, err error) {
	defer func() { err = recovered(recover(), err) }()
	age := p.cfg.Clock().Sub(e.OriginTime)
	order := event.Order()
	order.Record = e.Message.Name()
	order.Origin = billing.Origin{TopicID: p.cfg.TopicID(e.OriginTopic), Partition: e.OriginPart, Offset: e.OriginOffset}
	order.Traceparent, order.MayBeKnown = e.Traceparent, p.mayBeForgotten(age) || e.Tried || e.Message.Again
	verdict := p.verdict(e, age)
	if verdict == nil {
		if r, err = p.cfg.Charger.Charge(ctx, order); err == nil {
			return r, nil
		}
		if verdict = failure.Of(err); verdict.Reason != failure.DatabaseBusy {
			return r, err
		}
	}
	moved, err := p.cfg.Ledger.Moved(ctx, order.ID)
	switch {
	case err != nil:
		return r, &unaskedError{err}
	case moved == billing.Certainly && verdict.Reason == failure.TooOld: // not too old then: a duplicate
		return p.cfg.Charger.Charge(ctx, order)
	}
	verdict.Unknown = verdict.Unknown || moved != billing.NoMoney || e.Message.Again
	return r, verdict
}

// verdict is one that needs no claim; nil: there is none.
func (p *Processor) verdict(e retry.Envelope, age time.Duration) *failure.Error {
	switch {
	case e.Stopped != nil:
		return failure.Of(e.Stopped)
	case p.cfg.MaxAge > 0 && age > p.cfg.MaxAge && !e.AgeLifted:
		return failure.New(failure.TooOld, "the order is %s; at most %s are charged", old(e.OriginTime, p.cfg.Clock()), p.cfg.MaxAge)
	}
	return nil
}

// unaskedError tells that the row could not be read, so that there is no verdict: the message is handed back.
type unaskedError struct{ error }

// mayBeForgotten reports whether a database that was lost may have sent the record. A time in the future tells that a clock
// is wrong, and nothing of the record's age.
func (p *Processor) mayBeForgotten(age time.Duration) bool {
	return age > p.cfg.Window || age < -clockSkew
}

// clockSkew is how far the clocks of machines that are kept right may differ.
const clockSkew = time.Minute

// recovered turns a panic into a failure. It is a bug in our code: the message goes to the dead letters with the place it
// happened, and the process lives on.
func recovered(v any, err error) error {
	if v == nil {
		return err
	}
	return failure.New(failure.Panic, "%v at %s", failure.Recovered(v), panicSite(debug.Stack()))
}

// panicSite is the line of code that panicked: the first one below runtime's own.
func panicSite(stack []byte) string {
	_, below, _ := strings.Cut(string(stack), "\npanic(")
	for line := range strings.Lines(below) {
		if at, ok := strings.CutPrefix(line, "\t"); ok && !strings.Contains(at, "/runtime/") {
			site, _, _ := strings.Cut(at, " ")
			return path.Base(strings.TrimSpace(site))
		}
	}
	return "unknown"
}
