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

// bodies lists what can stand in a refusal. Only the first few are the contract's.
var bodies = []struct {
	name, kind, text string
	contract         bool
}{
	{"problem", "application/problem+json", `{"type":"about:blank","title":"Some title","code":"some_code"}`, true},
	{"problem with a charset", "Application/Problem+JSON; charset=utf-8", ` {"code":"some_code"} `, true},
	{"problem with a broken parameter", "application/problem+json; charset", `{"code":"some_code"}`, true},
	{"a code in words", "application/problem+json", `{"code":"some code"}`, true},
	{"nothing", "", "", false},
	{"a page", "text/html", "<html><h1>Payment Required</h1></html>", false},
	{"a page that says problem", "application/problem+json", "<html>", false},
	{"JSON", "application/json", `{"code":"some_code"}`, false},
	{"no type", "", `{"code":"some_code"}`, false},
	{"no code", "application/problem+json", `{"title":"Some title"}`, false},
	{"Code", "application/problem+json", `{"Code":"some_code"}`, false},
	{"empty code", "application/problem+json", `{"code":""}`, false},
	{"blank code", "application/problem+json", `{"code":" "}`, false},
	{"code null", "application/problem+json", `{"code":null}`, false},
	{"code number", "application/problem+json", `{"code":402}`, false},
	{"code twice", "application/problem+json", `{"code":"a","code":"b"}`, false},
	{"a list", "application/problem+json", `[{"code":"some_code"}]`, false},
	{"half", "application/problem+json", `{"code":"some_code"`, false},
	{"two", "application/problem+json", `{"code":"some_code"}{}`, false},
	{"too large", "application/problem+json", `{"code":"some_code","title":"` + strings.Repeat("x", maxAnswer) + `"}`, false},
}

// Every status with every body. An answer that ends the order does so only in the contract's words (issue 8, 2.4): with
// any other body the outcome is unknown. What does not end it keeps its reason, whoever says it.
func TestEveryStatusWithEveryBody(t *testing.T) {
	var status, body int
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		if kind := bodies[body].kind; kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.WriteHeader(status)
		if status != http.StatusNotModified {
			_, _ = io.WriteString(w, bodies[body].text)
		}
	}))
	row := 0
	for status = 300; status <= 599; status++ {
		if status > statuses[row].to {
			row++
		}
		want := statuses[row]
		require.True(t, want.from <= status && status <= want.to, "status %d is in no row", status)
		for body = range bodies {
			reason, unknown := want.reason, want.unknown
			if failure.Hold.Fault(reason) == failure.OfMessage && !bodies[body].contract {
				reason, unknown = failure.ProviderBadAnswer, true
			}
			call, f := mustFail(t.Context(), t, c, request())
			require.Equal(t, reason, f.Reason, "%d with %s", status, bodies[body].name)
			require.Equal(t, unknown, f.Unknown, "%d with %s", status, bodies[body].name)
			require.True(t, call.Sent)
			require.Equal(t, status, call.Status)
		}
		body = 0
		if status != http.StatusNotModified {
			call, f := mustFail(t.Context(), t, c, request())
			require.Equal(t, "some_code", call.Code)
			require.Contains(t, f.Detail, "some_code Some title")
		}
	}
	require.Equal(t, len(statuses)-1, row)
}

// A 5xx, a 429 and what asks to try again may say when, in seconds or as a date. Others are not asked.
func TestRetryAfterIsHeeded(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	heeded := map[int]bool{408: true, 409: true, 423: true, 425: true, 429: true}
	for status := 300; status <= 599; status++ {
		for value, want := range map[string]time.Duration{
			"7": 7 * time.Second, now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second, "86400": time.Hour,
		} {
			a := answer{status: status, header: http.Header{"Retry-After": {value}}}
			if !heeded[status] && status/100 != 5 {
				want = 0
			}
			require.Equal(t, want, a.refusal(problem{Code: "some_code", Contract: true}, now).RetryAfter, "%d %q", status, value)
		}
	}
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

func TestTheCodeOfA422Decides(t *testing.T) {
	for code, want := range map[string]struct {
		reason  failure.Reason
		unknown bool
	}{"idempotency_key_reused": {failure.KeyReused, true}, "other": {failure.ProviderRejected, false}} {
		c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusUnprocessableEntity, `{"code":"`+code+`"}`)
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
		"customer":     {`{"code":"c","title":"no card for ` + strings.ToUpper(r.CustomerID.String()) + `"}`, "c", "the provider answered 402 c"},
		"key":          {`{"code":"` + r.Key.String() + `"}`, "", "the provider answered 402"},
		"token":        {`{"code":"c","title":"bad ` + token + `"}`, "c", "the provider answered 402 c"},
		"not a string": {`{"code":"c","title":{}}`, "c", "the provider answered 402 c"},
	} {
		c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Request-Id", strings.Repeat("x", 101))
			refuse(w, http.StatusPaymentRequired, test.body)
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
