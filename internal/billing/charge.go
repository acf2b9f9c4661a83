// Package billing charges an order exactly once through a provider that may fail in any way.
//
// It promises that one order and generation is charged at most once, and that an outcome which cannot be known is never
// called a failure. It knows no topic, no SQL and no HTTP: Store and Provider are what it needs of them.
package billing

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/failure"
)

// Order is what is to be charged.
type Order struct {
	ID         uuid.UUID
	EventID    uuid.UUID // of the event that asked for it; informational
	CustomerID uuid.UUID
	Amount     Money
	// AmountText is the decimal as it stood in the event. It is read again when the order was first claimed in another
	// currency than today's default (hazard H6).
	AmountText string
	// CurrencyIsDefault tells that the event named no currency.
	CurrencyIsDefault bool
	Record            string // names the message that asks for it: topic/partition/offset
	// Origin is the record of the main topic that this order arrived on.
	Origin Origin
	// MayBeKnown asks for a look-up at the provider before the first send of an order without a row: the record is old, or
	// its headers tell of attempts that the database has forgotten (hazard H3).
	MayBeKnown  bool
	Traceparent string
}

// Origin identifies a record of the main topic for ever. A topic that is created again has another id (hazard H11).
type Origin struct {
	TopicID   uuid.UUID
	Partition int32
	Offset    int64
}

// Fingerprint is SHA-256 of a canonical text of what a customer would dispute: order, customer, amount, currency.
func (o Order) Fingerprint() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "v1|%s|%s|%d|%s", o.ID, o.CustomerID, o.Amount.Minor, o.Amount.Currency))
}

// In is the same order in another currency. It fails when the amount does not fit that currency's digits.
func (o Order) In(currency string) (Order, error) {
	m, err := ParseMoney(o.AmountText, currency)
	o.Amount = m
	return o, err
}

// State of an order's row. docs/architecture.md has the diagram.
type State string

// The states. Succeeded is final; a declined or rejected order is charged again only in a new generation.
const (
	InFlight  State = "in_flight"  // a claim with a lease works on it
	RetryWait State = "retry_wait" // failed, and no money moved
	Unknown   State = "unknown"    // money may have moved
	Succeeded State = "succeeded"
	Declined  State = "declined"
	Rejected  State = "rejected"
	Review    State = "review" // contradicts itself: a person decides
)

// Claim is the right to work on one order until the lease ends. Only its own settlement can end it earlier.
type Claim struct {
	ID         uuid.UUID // fresh for each claim
	Order      Order     // amount and currency as stored at the first claim
	Generation int
	Key        uuid.UUID // the idempotency key stored at the first claim
	Account    string    // the provider account stored at the first claim
	Attempt    int       // claims of this order so far, this one included
	Version    int       // of the last result event; 0 when there was none
	Fresh      bool      // this claim made the row
	Unknown    bool      // an earlier attempt of this generation may have moved money
	// FirstSentAt and LastSentAt are of earlier attempts, by the database's clock; zero when nothing was ever sent.
	FirstSentAt, LastSentAt time.Time
	Now                     time.Time // the database's clock at the claim
	SendBy                  time.Time // our clock: past this instant no request may begin (hazard H1)
	LeaseEnd                time.Time // our clock: past this instant no answer is awaited
}

// Standing is what stands in the way of a claim.
type Standing struct {
	State            State
	Reason           failure.Reason // why it was declined, rejected or sent to review
	SameContent      bool           // the row has the fingerprint that was asked for
	Currency         string
	ProviderChargeID string
	Origin           Origin // the record that the row was last worked on for
}

// Settlement is the end of a claim.
type Settlement struct {
	State            State
	Unknown          bool // an attempt of this generation may have moved money
	Sent             bool // false only with proof that no connection was got (hazard H2)
	Reason           failure.Reason
	ProviderChargeID string
	Attempt          Attempt
	Event            *Event // leaves through the outbox in the same transaction
}

// Attempt is what one claim did, for the history of the order.
type Attempt struct {
	Kind              string // "charge" or "lookup"
	StartedAt         time.Time
	FinishedAt        time.Time
	Reason            failure.Reason // empty on success
	HTTPStatus        int            // 0 when there was no answer
	ProviderRequestID string
	ProviderCode      string // the provider's own error code
	Replayed          bool   // the provider answered from its memory of the key
	Detail            string // for people: no payload, no key, no token
}

// Moved says what the order's row knows about money.
type Moved uint8

// What the row knows.
const (
	NoMoney   Moved = iota // there is no row, or it is proven that no money moved
	MayBe                  // somebody works on the order, or nobody knows how an attempt ended
	Certainly              // it is charged
)
