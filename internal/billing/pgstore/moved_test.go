package pgstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

func TestMovedFollowsTheRow(t *testing.T) { // H31
	f := newFixture(t)
	moved := func(o billing.Order) billing.Moved {
		t.Helper()
		m, err := f.Moved(t.Context(), o.ID)
		require.NoError(t, err)
		return m
	}
	o := f.order()
	require.Equal(t, billing.NoMoney, moved(o), "no row")
	c := f.mustClaim(t, o)
	require.Equal(t, billing.MayBe, moved(o), "a claim works on it")
	f.mustSettle(t, c, notSent(c))
	require.Equal(t, billing.NoMoney, moved(o), "proven absent")
	c = f.mustClaim(t, o)
	f.mustSettle(t, c, unknown(failure.ProviderTimeout))
	require.Equal(t, billing.MayBe, moved(o), "the answer was lost")
	c = f.mustClaim(t, o)
	f.expire(t, o)
	require.Equal(t, billing.MayBe, moved(o), "the process died")
	f.mustSettle(t, c, succeeded(c, "ch_1"))
	require.Equal(t, billing.Certainly, moved(o))
	c = f.mustClaim(t, f.order())
	f.mustSettle(t, c, refusal(c, billing.Declined, failure.Declined))
	require.Equal(t, billing.NoMoney, moved(c.Order))
}
