package providersim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a simulator on a real port.
type world struct {
	t     testing.TB
	sim   *Server
	url   string
	clock *clock
}

func newWorld(t testing.TB, cfg Config) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{now: time.Date(2026, 1, 2, 15, 4, 5, 123456789, time.UTC)}}
	cfg.Clock = w.clock.Now
	var err error
	w.sim, err = New(cfg)
	require.NoError(t, err)
	server := httptest.NewServer(w.sim.Handler())
	w.url = server.URL
	t.Cleanup(func() {
		w.sim.Close()
		server.Close()
	})
	return w
}

// ask is one request to charge, good as it is.
type ask struct {
	key, reference, customer string
	body                     string // in place of the good one
	header                   http.Header
}

func newAsk() ask {
	return ask{key: uuid.NewString(), reference: uuid.NewString(), customer: uuid.NewString(), header: http.Header{}}
}

func (a ask) text() string {
	if a.body != "" {
		return a.body
	}
	return fmt.Sprintf(`{"reference":%q,"customer_id":%q,"amount":"149.90","currency":"EUR"}`, a.reference, a.customer)
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

func (r reply) code(t testing.TB) string {
	t.Helper()
	require.NoError(t, r.err)
	require.Equal(t, "application/problem+json", r.header.Get("Content-Type"), "%s", r.body)
	var p struct {
		Type, Title, Code string
		Status            int
	}
	require.NoError(t, json.Unmarshal(r.body, &p))
	require.Equal(t, r.status, p.Status)
	require.NotEmpty(t, p.Title)
	return p.Code
}

func (r reply) charge(t testing.TB) Charge {
	t.Helper()
	require.NoError(t, r.err)
	var c Charge
	require.NoError(t, json.Unmarshal(r.body, &c), "%s", r.body)
	return c
}

func (w *world) post(a ask) reply {
	req, err := http.NewRequest(http.MethodPost, w.url+"/v1/charges", bytes.NewReader([]byte(a.text())))
	require.NoError(w.t, err)
	req.GetBody = nil // a reset must be seen, not repaired
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", a.key)
	for name, values := range a.header {
		req.Header[name] = values
	}
	return do(req)
}

// postAndGiveUp sends a request, sees it hang and cancels it.
func (w *world) postAndGiveUp(a ask) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/charges", strings.NewReader(a.text()))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", a.key)
	done := make(chan error, 1)
	before := w.sim.Summary().Statuses["hang"]
	go func() { done <- do(req).err }()
	require.Eventually(w.t, func() bool { return w.sim.Summary().Statuses["hang"] == before+1 }, 5*time.Second, time.Millisecond)
	require.Empty(w.t, done)
	cancel()
	require.ErrorIs(w.t, <-done, context.Canceled)
}

func (w *world) get(path string) reply {
	req, err := http.NewRequest(http.MethodGet, w.url+path, http.NoBody)
	require.NoError(w.t, err)
	return do(req)
}

func do(req *http.Request) reply {
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, body, err}
}

// moved is how often money moved for an order.
func (w *world) moved(reference string) int {
	for _, e := range w.sim.Ledger() {
		if e.Reference == reference {
			return e.Charges
		}
	}
	return 0
}
