package billing

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func goldenClaim() Claim {
	return Claim{
		Order: Order{
			ID:          goldenOrder,
			EventID:     uuid.MustParse("0190f5a2-7c1e-7b3a-8f00-0000000000e1"),
			CustomerID:  goldenCustomer,
			Amount:      Money{Minor: 14990, Currency: "EUR"},
			AmountText:  "149.9",
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		Generation: 1,
		Version:    2,
	}
}

var goldenTime = time.Date(2026, 3, 1, 13, 0, 0, 123_456_789, time.FixedZone("CET", 3600))

// Consumers depend on these names and formats.
func TestEventPayloadSucceeded(t *testing.T) {
	e := newEvent(goldenClaim(), EventSucceeded, goldenTime)
	e.ProviderChargeID = "ch_1"
	require.JSONEq(t, `{"event_id":"d0c6980d-6d48-5c99-a6d3-edd57cccff7d","event_type":"billing.charge.succeeded.v1",`+
		`"occurred_at":"2026-03-01T12:00:00.123Z","order_id":"0190f5a2-7c1e-7b3a-8f00-0000000000a1","generation":1,"version":3,`+
		`"amount":"149.90","currency":"EUR","provider_charge_id":"ch_1"}`, string(e.Payload()))
}

func TestEventPayloadFailed(t *testing.T) {
	e := newEvent(goldenClaim(), EventFailed, goldenTime)
	e.Kind, e.Reason = "declined", "insufficient_funds"
	require.JSONEq(t, `{"event_id":"793c7e75-2723-5b07-96de-bd7bf8912c8b","event_type":"billing.charge.failed.v1",`+
		`"occurred_at":"2026-03-01T12:00:00.123Z","order_id":"0190f5a2-7c1e-7b3a-8f00-0000000000a1","generation":1,"version":3,`+
		`"amount":"149.90","currency":"EUR","kind":"declined","reason":"insufficient_funds"}`, string(e.Payload()))
}

func TestEventNamesNoCustomer(t *testing.T) {
	payload := string(newEvent(goldenClaim(), EventSucceeded, goldenTime).Payload())
	require.NotContains(t, payload, goldenCustomer.String())
	require.NotContains(t, payload, "traceparent")
}

func TestEventCarriesTheTrace(t *testing.T) {
	require.Equal(t, goldenClaim().Order.Traceparent, newEvent(goldenClaim(), EventSucceeded, goldenTime).Traceparent)
}

// A consumer drops the event it has seen, and only that one.
func TestEventIDFollowsFromOrderGenerationAndVersion(t *testing.T) {
	first := newEvent(goldenClaim(), EventSucceeded, goldenTime)
	again := newEvent(goldenClaim(), EventSucceeded, goldenTime.Add(time.Hour))
	require.Equal(t, first.ID, again.ID)
	require.NotEqual(t, first.ID, IdempotencyKey("default", "default", goldenOrder, 1))

	ids := map[uuid.UUID]bool{first.ID: true}
	for _, change := range []func(*Claim){
		func(c *Claim) { c.Order.ID = goldenCustomer },
		func(c *Claim) { c.Generation++ },
		func(c *Claim) { c.Version++ },
	} {
		c := goldenClaim()
		change(&c)
		ids[newEvent(c, EventSucceeded, goldenTime).ID] = true
	}
	ids[newEvent(goldenClaim(), EventFailed, goldenTime).ID] = true
	require.Len(t, ids, 5)
}

// The fingerprint is stored with each order: a changed one would call every waiting order a conflict.
func TestFingerprintNeverChanges(t *testing.T) {
	sum := goldenClaim().Order.Fingerprint()
	require.Equal(t, "ca504c2a31aeac531f119fa8ae78ee5adcc52b0d986f50ef75eea1fad3218ec4", hex.EncodeToString(sum[:]))
}

func TestFingerprintCoversWhatACustomerWouldDispute(t *testing.T) {
	base := goldenClaim().Order
	for name, change := range map[string]func(*Order){
		"order":    func(o *Order) { o.ID = goldenCustomer },
		"customer": func(o *Order) { o.CustomerID = goldenOrder },
		"amount":   func(o *Order) { o.Amount.Minor++ },
		"currency": func(o *Order) { o.Amount.Currency = "USD" },
	} {
		o := base
		change(&o)
		require.NotEqual(t, base.Fingerprint(), o.Fingerprint(), name)
	}
	same := base
	same.EventID, same.AmountText, same.Origin, same.MayBeKnown, same.Traceparent = uuid.New(), "149.90", Origin{Offset: 9}, true, ""
	require.Equal(t, base.Fingerprint(), same.Fingerprint(), "the same order, told again")
}
