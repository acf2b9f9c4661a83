package orders

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// FuzzDecode holds Decode against encoding/json, which is another implementation: what is accepted is JSON with the same
// content, what is refused as not JSON is none, and each refusal has its reason.
func FuzzDecode(f *testing.F) {
	for _, c := range acceptedCases() {
		f.Add([]byte(c.value), "EUR")
	}
	for _, c := range refusedCases() {
		if len(c.value) < 10_000 { // a mutated copy of 900 kB teaches nothing and costs the whole run
			f.Add([]byte(c.value), "JPY")
		}
	}
	f.Fuzz(func(t *testing.T, value []byte, currency string) {
		before := bytes.Clone(value)
		e, err := Decode(value, currency)
		require.Equal(t, before, value, "the value was changed")
		if err != nil {
			checkRefusal(t, value, err)
			return
		}
		checkContent(t, value, currency, e)
		again, err := Decode(reencode(e), "not a currency")
		require.NoError(t, err)
		require.Equal(t, e.Amount, again.Amount)
		require.Equal(t, e.Order().Fingerprint(), again.Order().Fingerprint())
	})
}

func checkRefusal(t *testing.T, value []byte, err error) {
	t.Helper()
	var f *failure.Error
	require.ErrorAs(t, err, &f)
	require.True(t, f.Reason.Known())
	require.Equal(t, failure.ClassInvalid, f.Class())
	require.LessOrEqual(t, len(f.Detail), 500)
	switch f.Reason {
	case failure.NotJSON, failure.EmptyValue:
		require.False(t, json.Valid(value), "refused as not JSON: %v", err)
	case failure.InvalidUTF8, failure.DuplicateField: // told where they stand: what follows is not read
	default:
		require.True(t, json.Valid(value) || bytes.Count(value, []byte("["))+bytes.Count(value, []byte("{")) > 10_000, "not JSON, refused as %v", err)
	}
}

// checkContent reads an accepted value with encoding/json. That matches a key in any case, a map does not.
func checkContent(t *testing.T, value []byte, currency string, e OrderConfirmed) {
	t.Helper()
	var other map[string]any
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&other))
	require.Equal(t, e.AmountText, fmt.Sprint(other["total_amount"]))
	require.Regexp(t, "(?i)^"+e.EventID.String()+"$", other["event_id"])
	require.Regexp(t, "(?i)^"+e.OrderID.String()+"$", other["order_id"])
	require.Regexp(t, "(?i)^"+e.CustomerID.String()+"$", other["customer_id"])
	if named, ok := other["currency"]; ok {
		currency = named.(string)
	}
	require.Equal(t, currency, e.Amount.Currency)
	require.True(t, billing.KnownCurrency(currency))
	require.Positive(t, e.Amount.Minor)
}

func reencode(e OrderConfirmed) []byte {
	return fmt.Appendf(nil, `{"event_id":%q,"order_id":%q,"customer_id":%q,"total_amount":%q,"currency":%q}`,
		e.EventID, e.OrderID, e.CustomerID, e.Amount.Decimal(), e.Amount.Currency)
}
