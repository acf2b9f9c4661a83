package orders

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

func TestDecodeAccepts(t *testing.T) {
	for _, c := range acceptedCases() {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode([]byte(c.value), "EUR")
			require.NoError(t, err)
			require.Equal(t, OrderConfirmed{
				EventID:           uuid.MustParse(eventID),
				OrderID:           uuid.MustParse(orderID),
				CustomerID:        uuid.MustParse(customerID),
				Amount:            c.want,
				AmountText:        c.wantText,
				CurrencyIsDefault: !strings.Contains(c.value, `"currency"`),
			}, got)
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range refusedCases() {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode([]byte(c.value), "EUR")
			require.Zero(t, got)
			var f *failure.Error
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.want, f.Reason, f.Detail)
			require.Equal(t, failure.ClassInvalid, f.Class())
			require.False(t, f.Unknown)
			require.Contains(t, f.Detail, c.detail)
			require.Less(t, len(f.Detail), 200)
		})
	}
}

func TestDecodeTakesANilValueForATombstone(t *testing.T) {
	_, err := Decode(nil, "EUR")
	require.Equal(t, failure.EmptyValue, failure.Of(err).Reason)
}

// A refusal is logged and travels as a header, so it must not tell who the customer is.
func TestDecodeNeverShowsACustomer(t *testing.T) {
	const secret = "jane@example.com"
	for _, value := range []string{
		strings.Replace(event(`"total_amount":"1.00"`), customerID, secret, 1),
		event(`"total_amount":"1.00","` + secret + `":1,"` + secret + `":2`),
		event(`"total_amount":"1.00","` + secret + `":{"x":nope}`),
		event(`"total_amount":"1.00","` + secret + `":"\ud800"`),
		event(`"total_amount":"1.00","` + secret + "\":\"\xff\""),
		event(`"total_amount":"1.00","note":"` + secret),
		event(`"total_amount":{"` + secret + `":1}`),
		`"` + secret + `"`,
		secret,
	} {
		_, err := Decode([]byte(value), "EUR")
		require.Error(t, err, value)
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, err.Error(), "jane")
	}
}

func TestDecodeLeavesTheValueAlone(t *testing.T) {
	for _, c := range refusedCases() {
		value := []byte(c.value)
		_, err := Decode(value, "EUR")
		require.Error(t, err)
		require.True(t, bytes.Equal([]byte(c.value), value), c.name)
	}
	for _, c := range acceptedCases() {
		value := []byte(c.value)
		got, err := Decode(value, "EUR")
		require.NoError(t, err)
		require.Equal(t, c.value, string(value))
		clear(value) // the client may use the memory again
		require.Equal(t, c.wantText, got.AmountText)
		require.Equal(t, c.want, got.Amount)
	}
}

func TestOrderConfirmedOrder(t *testing.T) {
	e, err := Decode([]byte(event(`"total_amount":"149.9"`)), "EUR")
	require.NoError(t, err)
	require.Equal(t, billing.Order{
		ID:                uuid.MustParse(orderID),
		EventID:           uuid.MustParse(eventID),
		CustomerID:        uuid.MustParse(customerID),
		Amount:            billing.Money{Minor: 14990, Currency: "EUR"},
		AmountText:        "149.9",
		CurrencyIsDefault: true,
	}, e.Order())
}

var benchmarks = map[string]string{
	"Ordinary": event(`"total_amount":"149.90"`),
	"Currency": event(`"total_amount":149.90,"currency":"EUR"`),
	"Extras": event(`"event_type":"order.confirmed.v1","occurred_at":"2026-11-29T12:00:00Z","total_amount":"149.90","currency":"EUR",` +
		`"lines":[{"sku":"A-1","quantity":2,"price":"49.95"},{"sku":"B-2","quantity":1,"price":"50.00"}]`),
	"Nested900kB": strings.Repeat("[", 450_000) + strings.Repeat("]", 450_000),
}

func BenchmarkDecode(b *testing.B) {
	for name, value := range benchmarks {
		b.Run(name, func(b *testing.B) {
			in := []byte(value)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Decode(in, "EUR")
			}
		})
	}
}

// What stands in a message may be anything, a card number in the wrong field, say: it must not come back in an error, which
// goes into headers, logs and lists that people read who may not see it. Names of fields may.
func TestARefusalShowsNoValue(t *testing.T) {
	const secret = "4111111111111111"
	values := []string{secret, secret + "{", "{" + secret, "[" + secret + ",}", `"` + secret, `{"` + secret + `":}`, "{'" + secret + "'}"}
	for _, at := range []string{`"` + secret + `x"`, `"-` + secret + `x"`, `"` + secret + secret + `"`, secret + secret, secret + "x", `"0.` + secret + `"`, `{"` + secret + `":1}`,
		`"\u` + secret + `"`, `"\` + secret + `"`, `"\ud800` + secret + `"`, `"` + secret + `\u0000"`, `["` + secret + `"]`, `"` + secret + "\xff\"", `-` + secret} {
		for _, name := range []string{"event_id", "order_id", "customer_id", "total_amount", "currency", "note"} {
			fields := map[string]string{"event_id": `"` + eventID + `"`, "order_id": `"` + orderID + `"`, "customer_id": `"` + customerID + `"`, "total_amount": `"1.00"`}
			fields[name] = at
			var parts []string
			for k, v := range fields {
				parts = append(parts, `"`+k+`":`+v)
			}
			whole := "{" + strings.Join(parts, ",") + "}"
			values = append(values, whole, whole+secret, whole[:len(whole)-1]+`,"`+secret+`":1,"`+secret+`":2}`)
		}
	}
	refused := 0
	for _, v := range values {
		if _, err := Decode([]byte(v), "EUR"); err != nil {
			refused++
			require.NotContains(t, err.Error(), "4111", "%s", v)
			require.NotContains(t, fmt.Sprintf("%+v", errors.Unwrap(err)), "4111", "%s", v)
		}
	}
	require.Greater(t, refused, 200)
}
