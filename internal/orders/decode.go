package orders

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// Decode reads one event. Unknown fields are accepted, so that the producer may add some; everything else is strict. Errors
// are *failure.Error of class invalid. The value is neither kept nor changed: it may have to travel on, byte for byte.
func Decode(value []byte, defaultCurrency string) (OrderConfirmed, error) {
	if len(value) == 0 {
		return OrderConfirmed{}, failure.New(failure.EmptyValue, "the record has no value, want an event (a tombstone confirms no order)")
	}
	d, err := parse(value)
	if err != nil {
		return OrderConfirmed{}, err
	}
	e, err := d.event(defaultCurrency)
	if err != nil {
		return OrderConfirmed{}, err
	}
	if at := escapedNUL(value); at >= 0 { // Postgres stores it in no text, so no later step could keep it as it stood
		return OrderConfirmed{}, failure.New(failure.WrongShape, "a string has the character NUL at byte %d", at)
	}
	return e, nil
}

// event checks the known fields. Of several mistakes the first in this order is told.
func (d document) event(defaultCurrency string) (e OrderConfirmed, err error) {
	if e.EventID, err = d.uuid("event_id", d.EventID); err != nil {
		return e, err
	}
	if e.OrderID, err = d.uuid("order_id", d.OrderID); err != nil {
		return e, err
	}
	if e.CustomerID, err = d.uuid("customer_id", d.CustomerID); err != nil {
		return e, err
	}
	currency := defaultCurrency
	if e.CurrencyIsDefault = d.Currency.absent(); !e.CurrencyIsDefault {
		if currency, err = d.currency(); err != nil {
			return e, err
		}
	}
	if e.AmountText, err = d.amountText(); err != nil {
		return e, err
	}
	e.Amount, err = billing.ParseMoney(e.AmountText, currency)
	return e, err
}

// uuid accepts 36 characters in either case. What stands there instead is not shown: it may be a name or an address.
func (d document) uuid(name string, f field) (uuid.UUID, error) {
	text, err := d.text(name, f, `a UUID string`)
	if err != nil {
		return uuid.Nil, err
	}
	if len(text) == 0 {
		return uuid.Nil, failure.New(failure.MissingField, "%s is empty at byte %d, want a UUID", name, f.start)
	}
	id, err := uuid.ParseBytes(text)
	if err != nil || len(text) != 36 { // ParseBytes also takes braces, urn:uuid: and bare hex
		return uuid.Nil, failure.New(failure.InvalidUUID, "%s at byte %d is not a UUID of 36 characters with hyphens (it has %d)", name, f.start, len(text))
	}
	if id == uuid.Nil {
		return uuid.Nil, failure.New(failure.InvalidUUID, "%s at byte %d is the nil UUID, which names nothing", name, f.start)
	}
	return id, nil
}

func (d document) currency() (string, error) {
	text, err := d.text("currency", d.Currency, `a string such as "EUR"`)
	if err != nil {
		return "", err
	}
	if len(text) == 0 {
		return "", failure.New(failure.MissingField, "currency is empty at byte %d, want a code such as \"EUR\", or no such field", d.Currency.start)
	}
	return string(text), nil
}

// amountText is the decimal of a JSON string or number. A number is taken as it is spelt, never through a float.
func (d document) amountText() (string, error) {
	if d.TotalAmount.kind == jsontext.KindNumber {
		return string(d.raw(d.TotalAmount)), nil
	}
	text, err := d.text("total_amount", d.TotalAmount, `a string or number such as "149.90"`)
	return string(text), err
}

// text is the content of a string field. It is valid as long as the value that was decoded.
func (d document) text(name string, f field, want string) ([]byte, error) {
	switch f.kind {
	case jsontext.KindInvalid:
		return nil, failure.New(failure.MissingField, "%s is missing, want %s", name, want)
	case jsontext.KindNull:
		return nil, failure.New(failure.MissingField, "%s is null at byte %d, want %s", name, f.start, want)
	case jsontext.KindString:
		raw := d.raw(f)
		if bytes.IndexByte(raw, '\\') < 0 {
			return raw[1 : len(raw)-1], nil
		}
		return jsontext.AppendUnquote(nil, raw)
	default:
		return nil, failure.New(failure.WrongShape, "%s at byte %d is %s, want %s", name, f.start, shape(f.kind), want)
	}
}
