package httpprovider

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// statuses lists every status from 300 to 599 by what it means. A status in no row, or in two, fails the test.
var statuses = []struct {
	from, to int
	reason   failure.Reason
	unknown  bool // money may have moved
}{
	{300, 399, failure.ProviderMisaddressed, false},
	{400, 400, failure.ProviderBadRequest, false},
	{401, 401, failure.ProviderUnauthorized, false},
	{402, 402, failure.Declined, false},
	{403, 403, failure.ProviderUnauthorized, false},
	{404, 405, failure.ProviderMisaddressed, false},
	{406, 406, failure.ProviderBadRequest, false},
	{407, 407, failure.ProviderUnauthorized, false},
	{408, 408, failure.ProviderTryAgain, true},
	{409, 409, failure.ProviderInProgress, true},
	{410, 410, failure.ProviderMisaddressed, false},
	{411, 412, failure.ProviderRejected, false},
	{413, 413, failure.ProviderBadRequest, false},
	{414, 414, failure.ProviderRejected, false},
	{415, 415, failure.ProviderBadRequest, false},
	{416, 420, failure.ProviderRejected, false},
	{421, 421, failure.ProviderMisaddressed, false},
	{422, 422, failure.ProviderRejected, false},
	{423, 423, failure.ProviderInProgress, true},
	{424, 424, failure.ProviderRejected, false},
	{425, 425, failure.ProviderTryAgain, true},
	{426, 428, failure.ProviderRejected, false},
	{429, 429, failure.ProviderRateLimited, false},
	{430, 459, failure.ProviderRejected, false},
	{460, 460, failure.ProviderTryAgain, true},
	{461, 498, failure.ProviderRejected, false},
	{499, 499, failure.ProviderTryAgain, true},
	{500, 599, failure.Provider5xx, true},
}

func TestEveryStatusHasItsReason(t *testing.T) {
	var status int
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		if status != http.StatusNotModified {
			_, _ = io.WriteString(w, `{"type":"about:blank","title":"Some title","code":"some_code"}`)
		}
	}))
	row := 0
	for status = 300; status <= 599; status++ {
		if status > statuses[row].to {
			row++
		}
		want := statuses[row]
		require.True(t, want.from <= status && status <= want.to, "status %d is in no row", status)
		call, f := mustFail(t.Context(), t, c, request())
		require.Equal(t, want.reason, f.Reason, status)
		require.Equal(t, want.unknown, f.Unknown, status)
		require.True(t, call.Sent)
		require.Equal(t, status, call.Status)
		if status != http.StatusNotModified {
			require.Equal(t, "some_code", call.Code)
			require.Contains(t, f.Detail, "some_code Some title")
		}
		asks := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
		require.Equal(t, asks, f.RetryAfter == 7*time.Second, status)
	}
	require.Equal(t, len(statuses)-1, row)
}

func TestStatusesOutsideTheContractProveNothing(t *testing.T) {
	for _, status := range []int{202, 203, 204, 205, 206, 299, 600, 999} {
		r := request()
		c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			if !slices.Contains([]int{204}, status) {
				_, _ = io.WriteString(w, charged(r))
			}
		}))
		call, f := mustFail(t.Context(), t, c, r)
		require.Equal(t, failure.ProviderBadAnswer, f.Reason, status)
		require.True(t, f.Unknown && call.Sent, status)
	}
}

func TestThe422NeedsItsBody(t *testing.T) {
	for body, want := range map[string]struct {
		reason  failure.Reason
		unknown bool
	}{
		`{"code":"idempotency_key_reused"}`: {failure.KeyReused, true},
		`{"code":"other"}`:                  {failure.ProviderRejected, false},
		`<html>`:                            {failure.ProviderRejected, false},
		strings.Repeat("x", maxAnswer+1):    {failure.ProviderBadAnswer, true},
	} {
		c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, body)
		}))
		_, f := mustFail(t.Context(), t, c, request())
		require.Equal(t, want.reason, f.Reason)
		require.Equal(t, want.unknown, f.Unknown)
	}
}

// The provider's words are kept short and harmless, and never those that we told it in confidence.
func TestWhatTheProviderSaysIsSanitised(t *testing.T) {
	r := request()
	for name, test := range map[string]struct{ body, code, detail string }{
		"plain":        {`{"code":"card_declined","title":"Card declined"}`, "card_declined", "the provider answered 402 card_declined Card declined"},
		"control":      {`{"code":"a\u0000b","title":"a\u0000\n\u001b[31mb"}`, "", "the provider answered 402  a???[31mb"},
		"long":         {`{"code":"` + strings.Repeat("c", 101) + `","title":"` + strings.Repeat("t", 500) + `"}`, "", "the provider answered 402  " + strings.Repeat("t", 100)},
		"customer":     {`{"title":"no card for ` + strings.ToUpper(r.CustomerID.String()) + `"}`, "", "the provider answered 402"},
		"key":          {`{"code":"` + r.Key.String() + `"}`, "", "the provider answered 402"},
		"token":        {`{"title":"bad ` + token + `"}`, "", "the provider answered 402"},
		"not a string": {`{"code":7,"title":{}}`, "", "the provider answered 402"},
		"nothing":      {``, "", "the provider answered 402"},
	} {
		c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Request-Id", strings.Repeat("x", 101))
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(w, test.body)
		}))
		call, f := mustFail(t.Context(), t, c, r)
		require.Equal(t, failure.Declined, f.Reason, name)
		require.Equal(t, test.code, call.Code, name)
		require.Equal(t, test.detail, f.Detail, name)
		require.Empty(t, call.RequestID)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, "3600": time.Hour, "3601": time.Hour, "99999999999999999999": time.Hour, "-5": 0,
		"-99999999999999999999": 0, "1.5": 0, "soon": 0,
		now.Add(30 * time.Second).Format(http.TimeFormat): 30 * time.Second,
		now.Add(-time.Minute).Format(http.TimeFormat):     0,
		now.Add(24 * time.Hour).Format(http.TimeFormat):   time.Hour,
	} {
		require.Equal(t, want, retryAfter(value, now), "%q", value)
	}
}
