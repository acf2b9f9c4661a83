package pgstore

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// TestGuard: whatever the code above the database does, or a person at a prompt, the trigger holds.
func TestGuard(t *testing.T) {
	f := newFixture(t)
	paid := f.mustClaim(t, f.order())
	f.mustSettle(t, paid, succeeded(paid, "ch_1"))
	refusedOrder := f.mustClaim(t, f.order())
	f.mustSettle(t, refusedOrder, refusal(refusedOrder, billing.Declined, failure.Declined))
	waiting := f.mustClaim(t, f.order())
	f.mustSettle(t, waiting, notSent(waiting))

	for _, row := range []struct {
		claim *billing.Claim
		set   string
		code  string // empty: allowed
	}{
		{waiting, `amount_minor = amount_minor + 1`, "BL001"},
		{waiting, `currency = 'USD'`, "BL001"},
		{waiting, `customer_id = gen_random_uuid()`, "BL001"},
		{waiting, `order_id = gen_random_uuid()`, "BL001"},
		{waiting, `fingerprint = decode(repeat('00', 32), 'hex')`, "BL001"},
		{waiting, `attempts = attempts - 1`, "BL002"},
		{waiting, `generation = 0`, "BL002"},
		{paid, `event_version = 0`, "BL002"},
		{waiting, `idempotency_key = gen_random_uuid()`, "BL003"},
		{waiting, `idempotency_key = gen_random_uuid(), generation = 2`, ""},
		{paid, `state = 'retry_wait', finalized_at = NULL`, "BL004"},
		{paid, `state = 'declined'`, "BL004"},
		{paid, `provider_charge_id = 'ch_2'`, "BL004"},
		{refusedOrder, `state = 'retry_wait', finalized_at = NULL`, "BL005"},
		{refusedOrder, `state = 'succeeded', provider_charge_id = 'ch_3'`, ""},
		{waiting, `state = 'succeeded', finalized_at = now()`, "23514"}, // without a charge id
		{waiting, `state = 'in_flight'`, "23514"},                       // without a claim
		{waiting, `state = 'lost'`, "23514"},
	} {
		_, err := f.pool.Exec(t.Context(), `UPDATE charges SET `+row.set+` WHERE order_id = $1`, row.claim.Order.ID)
		pe, _ := errors.AsType[*pgconn.PgError](err)
		if row.code == "" {
			require.NoError(t, err, row.set)
			continue
		}
		require.NotNil(t, pe, row.set)
		require.Equal(t, row.code, pe.Code, row.set)
	}
}
