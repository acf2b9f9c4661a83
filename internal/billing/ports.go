package billing

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// ErrTooLarge marks an answer that is larger than we take. A list can be asked for in smaller pages.
var ErrTooLarge = errors.New("the answer is too large")

// Store keeps claims and outcomes. pgstore is the one implementation.
type Store interface {
	// Claim takes the order for one lease, or says what stands in the way. Exactly one of the results is non-nil.
	Claim(ctx context.Context, o Order) (*Claim, *Standing, error)
	// Settle ends the claim: state, attempt and event in one transaction. It reports false when the claim no longer holds
	// the row; a success is stored all the same.
	Settle(ctx context.Context, c *Claim, s Settlement) (held bool, err error)
}

// Provider moves the money. httpprovider is the one implementation. Errors are *failure.Error.
type Provider interface {
	// Charge sends one request, never two, and not after SendBy; its answer may come later. The Call tells what happened,
	// also beside an error.
	Charge(ctx context.Context, r ChargeRequest) (ProviderCharge, Call, error)
	// Find lists the charges of a reference. With consistent = false a recent charge may be missing from the list.
	Find(ctx context.Context, reference uuid.UUID) (found []ProviderCharge, consistent bool, err error)
}

// ChargeRequest is one request to move money.
type ChargeRequest struct {
	Key         uuid.UUID
	Reference   uuid.UUID // the order id
	CustomerID  uuid.UUID
	Amount      Money
	SendBy      time.Time // no request is written after this instant of our clock
	Traceparent string
}

// ProviderCharge is a charge as the provider tells it.
type ProviderCharge struct {
	ID        string
	Reference uuid.UUID
	Amount    Money
	CreatedAt time.Time
}

// ListedCharge is an entry of the provider's list of a span of time. One that cannot be read stays on the list: the money
// moved, whatever else is wrong.
type ListedCharge struct {
	ProviderCharge
	Problem string // why it cannot be read; empty for a good one
}

// Call is the trace of one request.
type Call struct {
	Sent      bool // a connection was got: money may have moved, whatever the error
	Status    int  // 0 when there was no answer
	RequestID string
	Code      string // the provider's error code
	Replayed  bool
}
