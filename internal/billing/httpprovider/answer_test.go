package httpprovider

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// A 2xx is a success only if it says so about this very order. What is well formed and says something else is told apart:
// a person must look at it.
func TestA2xxThatIsNoSuccess(t *testing.T) {
	r := request()
	good := charged(r)
	with := func(old, other string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, other, 1)
	}
	for name, test := range map[string]struct {
		body        string
		contradicts bool
	}{
		"empty":               {"", false},
		"garbage":             {"<html>all good</html>", false},
		"null":                {"null", false},
		"a list":              {"[" + good + "]", false},
		"half":                {good[:60], false},
		"two":                 {good + good, false},
		"something after":     {good + "x", false},
		"no id":               {with(`"id":"ch_1",`, ""), false},
		"empty id":            {with(`"ch_1"`, `""`), false},
		"id null":             {with(`"ch_1"`, "null"), false},
		"id number":           {with(`"ch_1"`, "1"), false},
		"id with NUL":         {with("ch_1", `ch\u0000`), false},
		"id too long":         {with("ch_1", strings.Repeat("x", 101)), false},
		"pending":             {with("succeeded", "pending"), false},
		"Succeeded":           {with("succeeded", "Succeeded"), false},
		"no status":           {with(`,"status":"succeeded"`, ""), false},
		"field twice":         {with(`"id"`, `"amount":"149.90","id"`), false},
		"Amount":              {with(`"amount"`, `"Amount"`), false},
		"amount number":       {with(`"149.90"`, "149.90"), false},
		"amount short":        {with("149.90", "149.9"), false},
		"amount long":         {with("149.90", "149.900"), false},
		"amount exponent":     {with("149.90", "1.4990e2"), false},
		"amount null":         {with(`"149.90"`, "null"), false},
		"currency unknown":    {with("EUR", "XXQ"), false},
		"currency lower case": {with("EUR", "eur"), false},
		"reference form":      {with(r.Reference.String(), strings.ToUpper(r.Reference.String())), false},
		"reference braces":    {with(r.Reference.String(), "{"+r.Reference.String()+"}"), false},
		"other amount":        {with("149.90", "149.91"), true},
		"other currency":      {with("EUR", "USD"), true},
		"other reference":     {with(r.Reference.String(), uuid.NewString()), true},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, test.body)
			}))
			charge, call, err := c.Charge(t.Context(), r)
			f := failed(t, r, err)
			require.Equal(t, failure.ProviderBadAnswer, f.Reason)
			require.True(t, f.Unknown && call.Sent)
			require.Zero(t, charge)
			if test.contradicts {
				require.ErrorIs(t, err, billing.ErrContradiction)
			} else {
				require.NotErrorIs(t, err, billing.ErrContradiction)
			}
		})
	}
}

func TestASuccessIsNotDoubtedForWhatDecidesNothing(t *testing.T) {
	r := request()
	good := charged(r)
	for name, body := range map[string]string{
		"unknown field":   strings.Replace(good, `"id"`, `"fee":{"amount":"1.00","id":[1,{"a":null}]},"id"`, 1),
		"no date":         strings.Replace(good, `,"created_at":"2026-01-02T15:04:05.123Z"`, "", 1),
		"unreadable date": strings.Replace(good, "2026-01-02T15:04:05.123Z", "yesterday", 1),
		"white space":     " \n" + strings.ReplaceAll(good, ":\"", " :\t\"") + "\n",
	} {
		charge, err := chargeOf([]byte(body))
		require.NoError(t, err, name)
		require.Equal(t, "ch_1", charge.ID)
		require.Equal(t, r.Amount, charge.Amount)
	}
}

// Whatever a provider sends, reading it ends in a charge of the exact form or in an error.
func FuzzChargeOf(f *testing.F) {
	f.Add([]byte(charged(request())))
	f.Add([]byte(`{"id":"a","id":"b"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := chargeOf(data)
		if err != nil {
			require.Less(t, len(err.Error()), 100)
			return
		}
		require.NotEmpty(t, c.ID)
		require.Positive(t, c.Amount.Minor)
	})
}

// The scan finds the same members as encoding/json, apart from names that stand twice.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{
		charged(request()), `{}`, ` { "a" : [1, {"b":"}"}] , "c":-1.5e3,"d":true,"e":null,"\u0061\"":"\\\"" } `, `{"a":1,"a":2}`, `[]`, `"x"`, ``, `{"a":1`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) {
			return // encoding/json replaces what is invalid, the scan keeps it
		}
		got, err := object(data)
		var want map[string]json.RawMessage
		invalid := json.Unmarshal(data, &want) != nil || want == nil
		if err != nil {
			require.True(t, invalid || strings.Contains(err.Error(), "stands twice"), "%s: %v", data, err)
			return
		}
		require.False(t, invalid, "%s", data)
		require.Len(t, got, len(want))
		for name, value := range want {
			require.Equal(t, string(value), string(got[name]))
			var s string
			if json.Unmarshal(value, &s) == nil {
				require.Equal(t, s, text(got[name]))
			}
		}
	})
}
