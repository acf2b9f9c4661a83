package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// exchange is one request under way.
type exchange struct {
	p     *provider
	w     http.ResponseWriter
	r     *http.Request
	key   string
	asked charge // reference, amount and currency
}

// read checks that the service keeps the contract.
func (x *exchange) read(body []byte) error {
	var asked struct {
		Reference  string `json:"reference"`
		CustomerID string `json:"customer_id"`
		Amount     string `json:"amount"`
		Currency   string `json:"currency"`
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&asked); err != nil {
		return fmt.Errorf("body %s: %w", body, err)
	}
	x.asked = charge{Reference: asked.Reference, Amount: asked.Amount, Currency: asked.Currency}
	switch {
	case uuid.Validate(x.key) != nil:
		return fmt.Errorf("idempotency key %q", x.key)
	case x.r.Header.Get("Authorization") != "Bearer "+providerToken:
		return fmt.Errorf("authorization of %s", asked.Reference)
	case x.r.Header.Get("Content-Type") != "application/json":
		return fmt.Errorf("content type %q", x.r.Header.Get("Content-Type"))
	case uuid.Validate(asked.Reference) != nil || uuid.Validate(asked.CustomerID) != nil || asked.Amount == "" || len(asked.Currency) != 3:
		return fmt.Errorf("body %s", body)
	}
	return nil
}
