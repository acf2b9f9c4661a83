package httpprovider

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/failure"
)

// A whole span in pages of a thousand: each charge once, in the order of time, and none from outside.
func TestListGoesThroughAllPages(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	clock := now
	sim, err := providersim.New(providersim.Config{Clock: func() time.Time { return clock }})
	require.NoError(t, err)
	c := client(t, serve(t, sim.Handler().ServeHTTP))
	for n := range 2*1000 + 10 {
		clock = now.Add(time.Duration(n) * time.Millisecond)
		_, _, err := c.Charge(t.Context(), request())
		require.NoError(t, err)
	}
	var all []billing.ListedCharge
	var pages []int
	for cursor := ""; ; {
		page, next, err := c.List(t.Context(), now.Add(time.Millisecond), clock, cursor, 1000)
		require.NoError(t, err)
		all, pages = append(all, page...), append(pages, len(page))
		if cursor = next; cursor == "" {
			break
		}
	}
	require.Equal(t, []int{1000, 1000, 8}, pages)
	for n, charge := range all {
		require.Empty(t, charge.Problem)
		require.Equal(t, fmt.Sprintf("ch_%d", n+2), charge.ID)
		require.Equal(t, now.Add(time.Duration(n+1)*time.Millisecond), charge.CreatedAt)
	}
}

// What an entry says wrong is told, and the others are read; a list without a readable end or without dates proves nothing.
func TestListOfOddEntries(t *testing.T) {
	good := fmt.Sprintf(`{"id":"ch_1","reference":%q,"amount":"149.90","currency":"EUR","status":"succeeded","created_at":"2026-01-02T15:04:05.123Z"}`, uuid.New())
	for name, entry := range map[string]string{
		"another system's":   strings.Replace(good, `"reference":"`, `"reference":"x`, 1),
		"rounded":            strings.Replace(good, "149.90", "149.9", 1),
		"pending":            strings.Replace(good, "succeeded", "pending", 1),
		"amount as a number": strings.Replace(good, `"149.90"`, `149.90`, 1),
	} {
		c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"data":[%s,%s],"next_cursor":null}`, entry, good)
		}))
		page, next, err := c.List(t.Context(), time.Now(), time.Now(), "", 1000)
		require.NoError(t, err, name)
		require.Empty(t, next)
		require.NotEmpty(t, page[0].Problem, name)
		require.Equal(t, "ch_1", page[0].ID, name)
		require.False(t, page[0].CreatedAt.IsZero(), name)
		require.Empty(t, page[1].Problem)
	}
	for name, body := range map[string]string{
		"no end":          `{"data":[]}`,
		"end as a number": `{"data":[],"next_cursor":7}`,
		"no list":         `{"next_cursor":null}`,
		"null":            `{"data":null,"next_cursor":null}`,
		"entry no object": `{"data":[1],"next_cursor":null}`,
		"no date":         `{"data":[` + strings.Replace(good, "2026-", "26-", 1) + `],"next_cursor":null}`,
		"cut off":         `{"data":[` + good,
		"too large":       `{"data":[],"next_cursor":"` + strings.Repeat("x", maxPage) + `"}`,
	} {
		c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		_, _, err := c.List(t.Context(), time.Now(), time.Now(), "", 1000)
		f := failure.Of(err)
		require.Equal(t, failure.ProviderBadAnswer, f.Reason, name)
		require.False(t, f.Unknown, name)
		require.Equal(t, name == "too large", errors.Is(err, billing.ErrTooLarge), name)
	}
}

func TestListIsRefused(t *testing.T) {
	for status, want := range map[int]failure.Reason{
		500: failure.Provider5xx, 429: failure.ProviderRateLimited, 401: failure.ProviderUnauthorized, 404: failure.ProviderMisaddressed,
		400: failure.ProviderBadAnswer, // a look-up decides no order
	} {
		c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("limit") != "1000" || r.URL.Query().Get("cursor") != "a b" || r.Header.Get("Authorization") != "Bearer "+token {
				status = 418
			}
			w.WriteHeader(status)
		}))
		_, _, err := c.List(t.Context(), time.Now().Add(-time.Hour), time.Now(), "a b", 1000)
		require.Equal(t, want, failure.Of(err).Reason)
		require.False(t, failure.Of(err).Unknown)
	}
}
