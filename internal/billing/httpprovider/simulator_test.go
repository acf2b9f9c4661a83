package httpprovider

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/failure"
)

// Every way in which the simulator fails, as the service sees it. Whenever money moved, the failure must have said that it
// may have, and the same key must then find the one charge.
func TestAgainstTheSimulator(t *testing.T) {
	for _, kind := range providersim.Kinds() {
		want, listed := map[providersim.Kind]struct {
			reason  failure.Reason
			unknown bool
		}{
			providersim.Status503: {failure.Provider5xx, true}, providersim.Status500: {failure.Provider5xx, true},
			providersim.Status429: {failure.ProviderRateLimited, false}, providersim.Status400: {failure.ProviderBadRequest, false},
			providersim.Status401: {failure.ProviderUnauthorized, false}, providersim.Status404: {failure.ProviderMisaddressed, false},
			providersim.Redirect: {failure.ProviderMisaddressed, false}, providersim.ResetBefore: {failure.ProviderReset, true},
			providersim.Hang: {failure.ProviderTimeout, true}, providersim.Decline: {failure.Declined, false},
			providersim.Status500After: {failure.Provider5xx, true}, providersim.ResetAfter: {failure.ProviderReset, true},
			providersim.HangAfter: {failure.ProviderTimeout, true}, providersim.Garbage: {failure.ProviderBadAnswer, true},
			providersim.Truncated: {failure.ProviderBadAnswer, true}, providersim.OtherAmount: {failure.ProviderBadAnswer, true},
			providersim.Slow: {failure.ProviderTimeout, true}, providersim.Busy: {failure.ProviderTimeout, true},
		}[kind]
		require.True(t, listed, kind)
		t.Run(string(kind), func(t *testing.T) {
			sim, err := providersim.New(providersim.Config{Token: token, SlowFor: time.Hour})
			require.NoError(t, err)
			server := httptest.NewServer(sim.Handler())
			t.Cleanup(server.Close)
			t.Cleanup(sim.Close)
			c := client(t, server.URL)
			r, first := request(), c
			if want.reason == failure.ProviderTimeout {
				first = client(t, server.URL, timeout(100*time.Millisecond))
			}

			require.NoError(t, sim.SetMode(kind, time.Time{}))
			call, f := mustFail(t.Context(), t, first, r)
			require.Equal(t, want.reason, f.Reason, f.Detail)
			require.Equal(t, want.unknown, f.Unknown)
			require.True(t, call.Sent)
			require.Equal(t, kind == providersim.OtherAmount, errors.Is(f, billing.ErrContradiction))

			require.NoError(t, sim.SetMode(providersim.OK, time.Time{}))
			found, consistent, err := c.Find(t.Context(), r.Reference)
			require.NoError(t, err)
			require.True(t, consistent)
			if len(found) > 0 {
				require.True(t, f.Unknown, "money had moved")
			}
			charge, call, err := c.Charge(t.Context(), r)
			switch kind {
			case providersim.Decline:
				require.Equal(t, failure.Declined, failed(t, r, err).Reason)
				require.Equal(t, "card_declined", call.Code)
			case providersim.Slow: // it still works on the first request
				require.Equal(t, failure.ProviderInProgress, failed(t, r, err).Reason)
			default:
				require.NoError(t, err)
				require.Equal(t, len(found) > 0, call.Replayed)
				all, _, err := c.Find(t.Context(), r.Reference)
				require.NoError(t, err)
				require.Equal(t, []billing.ProviderCharge{charge}, all, "charged once")
			}
		})
	}
}

func TestAKeyThatWasUsedWithOtherContent(t *testing.T) {
	sim, err := providersim.New(providersim.Config{})
	require.NoError(t, err)
	c := client(t, serve(t, sim.Handler().ServeHTTP))
	r := request()
	_, _, err = c.Charge(t.Context(), r)
	require.NoError(t, err)
	r.Reference = uuid.New()
	call, f := mustFail(t.Context(), t, c, r)
	require.Equal(t, failure.KeyReused, f.Reason)
	require.True(t, f.Unknown)
	require.Equal(t, "idempotency_key_reused", call.Code)
}
