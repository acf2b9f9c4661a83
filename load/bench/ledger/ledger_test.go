package ledger

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func send(t *testing.T, server *httptest.Server, key, reference string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/charges", strings.NewReader(`{"reference":"`+reference+`","amount":"1.00","currency":"EUR"}`))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", key)
	res, err := server.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

func TestMoneyMovesOncePerKey(t *testing.T) {
	server := httptest.NewServer(New(Config{}).Handler())
	defer server.Close()
	require.Equal(t, 201, send(t, server, "k1", "a"))
	require.Equal(t, 200, send(t, server, "k1", "a"))
	require.Equal(t, 201, send(t, server, "k2", "a"), "another key is another charge")
	require.Equal(t, 201, send(t, server, "k3", "b"))
	require.Equal(t, 400, send(t, server, "", "c"))

	s, err := Client{server.URL}.Summary(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{2, 2, 1}, []int{s.Orders, s.Charged, s.Twice})
	require.False(t, s.First.After(s.Last))
}

func TestEachNthOrderFailsOnce(t *testing.T) {
	server := httptest.NewServer(New(Config{FailEvery: 2}).Handler())
	defer server.Close()
	require.Equal(t, 201, send(t, server, "k1", "a"))
	require.Equal(t, 503, send(t, server, "k2", "b"))
	require.Equal(t, 201, send(t, server, "k2", "b"))

	orders, err := Client{server.URL}.Orders(t.Context())
	require.NoError(t, err)
	require.Len(t, orders, 2)
	for _, o := range orders {
		require.Equal(t, 1, o.Charges)
		require.Equal(t, o.Reference == "b", !o.FirstAnswered.IsZero())
		require.Equal(t, o.Reference == "b", !o.SecondAsked.IsZero())
	}
}

func TestRefusals(t *testing.T) {
	server := httptest.NewServer(New(Config{Refuse: 1}).Handler())
	defer server.Close()
	require.Equal(t, 429, send(t, server, "k1", "a"))

	limited := httptest.NewServer(New(Config{Takes: 0.001}).Handler())
	defer limited.Close()
	require.Equal(t, 201, send(t, limited, "k1", "a"))
	require.Equal(t, 429, send(t, limited, "k2", "b"))
	s, err := Client{limited.URL}.Summary(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 1}, []int{s.Requests, s.Refused, s.Charged})
}
