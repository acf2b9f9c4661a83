// Package orders is what arrives: the event that an order was confirmed, and the one function that decides its fate.
//
// It promises that an event is either understood exactly or refused with a reason of failure's closed list: an amount is
// never rounded, a missing field never becomes zero, of two equal keys neither wins. It never guesses, and it never shows a
// value that could be a customer's: a refusal names the field and the byte where it stands. It knows nothing of SQL and HTTP.
//
// Read Processor.Process first.
package orders

import (
	"github.com/google/uuid"

	"example.com/billing/internal/billing"
)

// OrderConfirmed is the event of topic orders.confirmed: a customer has agreed to pay this amount for this order.
type OrderConfirmed struct {
	EventID    uuid.UUID
	OrderID    uuid.UUID
	CustomerID uuid.UUID
	Amount     billing.Money
	// AmountText is the decimal as it stood in the event.
	AmountText string
	// CurrencyIsDefault tells that the event named no currency, so that Amount has the configured one.
	CurrencyIsDefault bool
}

// Order is what the event asks for. Where it came from and how old it is, the event does not know.
func (e OrderConfirmed) Order() billing.Order {
	return billing.Order{
		ID: e.OrderID, EventID: e.EventID, CustomerID: e.CustomerID,
		Amount: e.Amount, AmountText: e.AmountText, CurrencyIsDefault: e.CurrencyIsDefault,
	}
}
