package orders

import (
	"context"
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

// Router gives a message its next place. retry.Router is the one implementation.
type Router interface {
	Route(ctx context.Context, e retry.Envelope, o retry.Outcome) error
}

// ProcessorConfig wires a processor.
type ProcessorConfig struct {
	Charger  Charger
	Router   Router
	Ladder   retry.Ladder
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
	envelope := p.cfg.Ladder.Open(m, p.cfg.Clock())
	order, receipt, err := p.charge(ctx, envelope)
	return p.cfg.Router.Route(ctx, envelope, retry.Outcome{
		Order: order, Err: err, Duplicate: receipt.Duplicate, SameRecord: receipt.SameRecord,
	})
}

// charge decodes the event and charges it. A panic is a bug in our code: the message goes to the dead letters with the
// place it happened, and the process lives on.
func (p *Processor) charge(ctx context.Context, e retry.Envelope) (id uuid.UUID, r billing.Receipt, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = failure.New(failure.Panic, "%v at %s", v, panicSite(debug.Stack()))
		}
	}()
	event, err := Decode(e.Message.Value, p.cfg.Currency)
	if err != nil {
		return uuid.Nil, billing.Receipt{}, err
	}
	order := event.Order()
	order.Origin = billing.Origin{TopicID: p.cfg.TopicID(e.OriginTopic), Partition: e.OriginPart, Offset: e.OriginOffset}
	order.Traceparent = e.Traceparent
	age := p.cfg.Clock().Sub(e.OriginTime)
	if p.cfg.MaxAge > 0 && age > p.cfg.MaxAge {
		return order.ID, billing.Receipt{}, failure.New(failure.TooOld, "the order is %s old, at most %s are charged", age.Round(time.Second), p.cfg.MaxAge)
	}
	order.MayBeKnown = age > p.cfg.Window || e.Failures > 0 || e.ReplayCount > 0
	r, err = p.cfg.Charger.Charge(ctx, order)
	return order.ID, r, err
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
