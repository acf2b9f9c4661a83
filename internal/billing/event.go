package billing

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// The result events, topic billing.charges, key = order id.
const (
	EventSucceeded = "billing.charge.succeeded.v1"
	EventFailed    = "billing.charge.failed.v1"
)

// Event is a result that leaves through the outbox. Its id follows from order, generation and version, so a consumer
// recognises a duplicate; the version lets it drop a stale one. It carries no customer data.
type Event struct {
	ID               uuid.UUID `json:"event_id"`
	Type             string    `json:"event_type"`
	OccurredAt       time.Time `json:"occurred_at"`
	OrderID          uuid.UUID `json:"order_id"`
	Generation       int       `json:"generation"`
	Version          int       `json:"version"`
	Amount           string    `json:"amount"`
	Currency         string    `json:"currency"`
	ProviderChargeID string    `json:"provider_charge_id,omitempty"`
	Kind             string    `json:"kind,omitempty"` // "declined" or "rejected"
	Reason           string    `json:"reason,omitempty"`
	Traceparent      string    `json:"-"` // travels as a header
}

// newEvent fills what every result of a claim has in common.
func newEvent(c Claim, kind string, at time.Time) *Event {
	return Event{
		Type: kind, OccurredAt: at.UTC().Truncate(time.Millisecond), OrderID: c.Order.ID, Generation: c.Generation,
		Amount: c.Order.Amount.Decimal(), Currency: c.Order.Amount.Currency, Traceparent: c.Order.Traceparent,
	}.WithVersion(c.Version + 1)
}

// WithVersion is the event with another version, and so with another id: a late success comes after what another claim has
// told meanwhile. The type is part of the id: a database that was set back counts versions anew, and a success must not look
// like the refusal that it has forgotten (torture, seed 61006).
func (e Event) WithVersion(version int) *Event {
	e.Version = version
	e.ID = uuid.NewSHA1(namespace, fmt.Appendf(nil, "event|%s|%d|%d|%s", e.OrderID, e.Generation, version, e.Type))
	return &e
}

// Payload is the event as it is published.
func (e *Event) Payload() []byte {
	b, err := json.Marshal(e)
	if err != nil { // no field of an Event can fail to encode
		panic(err)
	}
	return b
}
