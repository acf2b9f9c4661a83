package httpprovider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

const token = "secret-token-of-the-test"

// TestMain fails the run when a goroutine of net/http, a client's or a server's, outlives the tests.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what net/http says of hostile servers, as in main
	code := m.Run()
	tick, end := time.NewTicker(10*time.Millisecond), time.After(5*time.Second)
	for code == 0 && strings.Contains(stacks(), "net/http.") {
		select {
		case <-tick.C:
		case <-end:
			fmt.Println("goroutines leaked:\n" + stacks())
			code = 1
		}
	}
	os.Exit(code)
}

func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}

// client is one for the address, closed when the test ends.
func client(t testing.TB, url string, change ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{URL: url, Token: token, Timeout: 5 * time.Second, MaxConns: 4}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func timeout(d time.Duration) func(*Config) { return func(c *Config) { c.Timeout = d } }

// serve runs a handler on a real port until the test ends.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// refuse answers as the contract writes a refusal.
func refuse(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// request is a good one.
func request() billing.ChargeRequest {
	return billing.ChargeRequest{
		Key: uuid.New(), Reference: uuid.New(), CustomerID: uuid.New(),
		Amount: billing.Money{Minor: 14990, Currency: "EUR"}, SendBy: time.Now().Add(time.Minute),
	}
}

// charged is the provider's good answer to it.
func charged(r billing.ChargeRequest) string {
	return fmt.Sprintf(`{"id":"ch_1","reference":%q,"amount":%q,"currency":%q,"status":"succeeded","created_at":"2026-01-02T15:04:05.123Z"}`,
		r.Reference, r.Amount.Decimal(), r.Amount.Currency)
}

// failed is the failure in an error, which must be one, and must keep every secret of the request.
func failed(t testing.TB, r billing.ChargeRequest, err error) *failure.Error {
	t.Helper()
	f, ok := errors.AsType[*failure.Error](err)
	require.True(t, ok, "want a *failure.Error, got %v", err)
	require.True(t, f.Reason.Known())
	for _, secret := range []string{token, r.Key.String(), r.CustomerID.String()} {
		require.NotContains(t, f.Error(), secret)
	}
	require.Less(t, len(f.Error()), 400)
	return f
}

// mustFail charges and returns what went wrong.
func mustFail(ctx context.Context, t testing.TB, c *Client, r billing.ChargeRequest) (billing.Call, *failure.Error) {
	t.Helper()
	_, call, err := c.Charge(ctx, r)
	return call, failed(t, r, err)
}
