package shop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// maxBody is far more than an order needs.
const maxBody = 16 << 10

// order is a request that was found good. Its amount is the client's text: billing reads it once more.
type order struct {
	customer uuid.UUID
	amount   string
	currency string
}

// readOrder answers 400 for what is not a JSON object and 422 for fields, all that are wrong at once.
func (s *Shop) readOrder(w http.ResponseWriter, r *http.Request) (order, *problem) {
	var in struct {
		CustomerID  *string         `json:"customer_id"`
		TotalAmount json.RawMessage `json:"total_amount"`
		Currency    *string         `json:"currency"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return order{}, unreadable(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return order{}, unreadable(errors.New("there is more after the JSON object"))
	}
	var o order
	var bad []fieldError
	fault := func(field, format string, args ...any) {
		bad = append(bad, fieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
	}
	currency := s.cfg.Currency
	if in.Currency != nil {
		o.currency, currency = *in.Currency, *in.Currency
	}
	known := billing.KnownCurrency(currency)
	if !known {
		fault("currency", `want an ISO 4217 code such as "EUR"`)
	}
	var err error
	if in.CustomerID == nil {
		fault("customer_id", "is missing")
	} else if o.customer, err = uuid.Parse(*in.CustomerID); err != nil || len(*in.CustomerID) != 36 || o.customer == uuid.Nil {
		fault("customer_id", `want a UUID such as "3f2504e0-4f89-41d3-9a0c-0305e82c3301"`)
	}
	if o.amount, err = amountText(in.TotalAmount); err != nil {
		fault("total_amount", "%v", err)
	} else if _, err = billing.ParseMoney(o.amount, currency); err != nil && known {
		fault("total_amount", "%s", failure.Of(err).Detail)
	}
	if len(bad) > 0 {
		return order{}, invalid(bad)
	}
	return o, nil
}

// amountText is the amount as it stands in the request, string or number: a float64 would round it.
func amountText(raw json.RawMessage) (string, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", errors.New("is missing")
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return string(raw), nil
	}
	return "", errors.New(`want a decimal such as "149.90"`)
}
