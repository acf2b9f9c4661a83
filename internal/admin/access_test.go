package admin_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/testkit"
)

func TestWithoutTokensThereIsNoAdmin(t *testing.T) {
	w := newWorld(t)
	w.cfg.Tokens = nil
	w.serve()
	for _, path := range []string{"/admin/dlq", "/admin/openapi.json", "/admin/audit", w.messages()} {
		require.Equal(t, http.StatusNotFound, w.statusOf(operator, http.MethodGet, path), path)
	}
	require.Equal(t, http.StatusNotFound, w.statusOf(operator, http.MethodPost, w.replayPath()))
	require.Equal(t, http.StatusOK, w.get("/healthz").status)
}

func TestWhoMayWhat(t *testing.T) {
	w := newWorld(t).serve()
	letter := w.die(uuid.New(), 1)
	one := w.messages() + "/0/0"
	require.Zero(t, letter.Offset)
	for _, c := range []struct {
		token, method, path string
		want                int
	}{
		{"", http.MethodGet, "/admin/dlq", 401},
		{"not-a-token-0123456789", http.MethodGet, "/admin/dlq", 401},
		{viewer + "x", http.MethodGet, "/admin/dlq", 401},
		{viewer, http.MethodGet, "/admin/dlq", 200},
		{viewer, http.MethodGet, one, 200},
		{viewer, http.MethodGet, "/admin/audit", 200},
		{viewer, http.MethodPost, w.replayPath(), 403},
		{viewer, http.MethodDelete, "/admin/dlq", 405},
		{operator, http.MethodGet, "/admin/nothing", 404},
		{operator, http.MethodGet, "/admin/dlq/other.dlq/messages", 404},
		{operator, http.MethodPost, "/admin/dlq/other.dlq/replay", 404},
		{operator, http.MethodGet, w.messages() + "/0/99", 404},
		{operator, http.MethodGet, w.messages() + "/0/-1", 400},
		{operator, http.MethodPost, w.replayPath(), 200},
	} {
		r := w.call(c.token, c.method, c.path, "")
		require.Equal(t, c.want, r.status, "%s %s: %s", c.method, c.path, r.body)
		if c.want == http.StatusUnauthorized {
			require.Equal(t, `Bearer realm="billing"`, r.header.Get("WWW-Authenticate"))
		}
	}
	require.NotContains(t, w.log.String(), "not-a-token", "a token is never logged")
}

func TestWrongTokensAreBoundedAndLockNobodyOut(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.deps.Clock = func() time.Time { return now } // nothing refills
	w.serve()
	var seen []int
	for range 12 {
		seen = append(seen, w.call("wrong-token-0123456789", http.MethodGet, "/admin/dlq", "").status)
	}
	require.Equal(t, append(repeat(401, 10), 429, 429), seen)
	require.Equal(t, 10, strings.Count(w.log.String(), "admin login failed"))
	require.Equal(t, http.StatusOK, w.get("/admin/dlq").status)
}

func TestEveryAnswerCarriesItsProtection(t *testing.T) {
	w := newWorld(t).serve()
	for _, path := range []string{"/healthz", "/admin/dlq", "/nothing", "/metrics"} {
		r := w.call(viewer, http.MethodGet, path, "", "X-Request-Id", "my-id.1")
		require.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-store", r.header.Get("Cache-Control"), path)
		require.Equal(t, "my-id.1", r.header.Get("X-Request-Id"), path)
		require.Empty(t, r.header.Get("Access-Control-Allow-Origin"), path)
	}
	r := w.call(viewer, http.MethodGet, "/healthz", "", "X-Request-Id", "a b\tlevel=ERROR")
	require.NoError(t, uuid.Validate(r.header.Get("X-Request-Id")), "what cannot stand in a log line is replaced")
}

func TestReadinessNamesThePartThatFails(t *testing.T) {
	w := newWorld(t)
	stuck := make(chan struct{})
	defer close(stuck)
	w.cfg.CheckTimeout = 50 * time.Millisecond
	w.deps.Parts = []admin.Part{
		{Name: "database", Check: always(admin.Health{State: admin.Ready})},
		{Name: "line", Check: always(admin.Health{State: admin.Held, Reason: failure.ProviderDown, Detail: "held for 3s: provider_down"})},
		{Name: "consumers", Check: func(context.Context) admin.Health { <-stuck; return admin.Health{State: admin.Ready} }},
	}
	w.serve()
	r := w.call("", http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.JSONEq(t, `{"ready": false, "state": "held", "parts": [{"name": "database", "ready": true, "state": "ready"},
		{"name": "line", "ready": false, "state": "held", "reason": "provider_down"}, {"name": "consumers", "ready": false, "state": "failed"}]}`, string(r.body))
	r = w.get("/readyz")
	require.Contains(t, string(r.body), "no answer within 50ms")
	require.Equal(t, http.StatusOK, w.call("", http.MethodGet, "/healthz", "").status)
}

func always(h admin.Health) func(context.Context) admin.Health {
	return func(context.Context) admin.Health { return h }
}

// A pause is what a person wants: no orchestrator and no balancer must act on it. Who paused, and why, is for those who show a token.
func TestAPauseIsReadyAndNamesNobody(t *testing.T) {
	w := newWorld(t)
	line := admin.Health{State: admin.Paused, Reason: failure.OperatorPause, Detail: "held for 3s: operator_pause by oscar: the provider moves"}
	w.deps.Parts = []admin.Part{{Name: "line", Check: always(line)}}
	w.serve()
	r := w.call("", http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, r.status)
	require.JSONEq(t, `{"ready": true, "state": "paused", "parts": [{"name": "line", "ready": true, "state": "paused", "reason": "operator_pause"}]}`, string(r.body))
	require.Contains(t, string(w.get("/readyz").body), "by oscar: the provider moves")

	r = w.call("wrong-token-0123456789", http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusUnauthorized, r.status, "it could be guessed here otherwise")
	require.NotContains(t, string(r.body), "oscar")
}

func TestAFailureOutweighsAPause(t *testing.T) {
	w := newWorld(t)
	w.deps.Parts = []admin.Part{
		{Name: "line", Check: always(admin.Health{State: admin.Paused, Reason: failure.OperatorPause})}, {Name: "database", Check: always(admin.Health{State: admin.Failed})},
	}
	w.serve()
	r := w.call("", http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.Equal(t, "failed", r.json(t)["state"])
}

func TestReadyAndMetrics(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "billing_up"}, func() float64 { return 1 }))
	w.deps.Metrics = registry
	w.serve()
	require.JSONEq(t, `{"ready": true, "state": "ready", "parts": []}`, string(w.call("", http.MethodGet, "/readyz", "").body))
	require.Contains(t, string(w.call("", http.MethodGet, "/metrics", "").body), "billing_up 1")
}

func TestAnInternalErrorIsLoggedAndNotShown(t *testing.T) {
	w := newWorld(t).serve()
	_, err := w.db.Pool.Exec(t.Context(), `ALTER TABLE audit_log RENAME TO somewhere_else`)
	require.NoError(t, err)
	r := w.call(viewer, http.MethodGet, "/admin/audit", "", "X-Request-Id", "find-me")
	require.Equal(t, http.StatusInternalServerError, r.status)
	require.NotContains(t, string(r.body), "audit_log")
	require.Equal(t, "find-me", r.json(t)["request_id"])
	require.Contains(t, w.log.String(), "request_id=find-me")
	require.Contains(t, w.log.String(), "audit_log")
}

func TestABusyPortFailsTheStart(t *testing.T) {
	w := newWorld(t).serve()
	w.cfg.Addr = strings.TrimPrefix(w.url, "http://")
	_, err := admin.New(w.cfg, w.deps)
	require.ErrorContains(t, err, "listen")
	_, err = admin.New(admin.Config{}, admin.Deps{})
	require.ErrorContains(t, err, "required")
}

func TestTheAuditTrailCannotBeChanged(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	require.Equal(t, http.StatusOK, w.call(operator, http.MethodPost, w.replayPath(), "").status)
	for _, sql := range []string{`UPDATE audit_log SET actor = 'nobody'`, `DELETE FROM audit_log`, `TRUNCATE audit_log`} {
		_, err := w.db.Pool.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "BL006", sql)
	}
}

// TestAStopLetsTheRunningRequestFinish holds a request in a readiness check while the server stops.
func TestAStopLetsTheRunningRequestFinish(t *testing.T) {
	w := newWorld(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	w.cfg.CheckTimeout = testkit.Patience
	w.deps.Parts = []admin.Part{{Name: "slow", Check: func(context.Context) admin.Health { close(entered); <-leave; return admin.Health{State: admin.Ready} }}}
	s, err := admin.New(w.cfg, w.deps)
	require.NoError(t, err)
	w.url = "http://" + s.Addr()
	ctx, cancel := context.WithCancel(t.Context())
	stopped, answered := make(chan error, 1), make(chan int, 1)
	go func() { stopped <- s.Run(ctx) }()
	go func() { answered <- w.call("", http.MethodGet, "/readyz", "").status }()
	testkit.Receive(t, entered, "the request is being answered")
	cancel()
	close(leave)
	require.Equal(t, http.StatusOK, testkit.Receive(t, answered, "the answer"))
	require.NoError(t, testkit.Receive(t, stopped, "the server stops"))
}

// statusOf asks without looking into the description.
func (w *world) statusOf(token, method, path string) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, http.NoBody)
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := httpClient.Do(req)
	require.NoError(w.t, err)
	require.NoError(w.t, res.Body.Close())
	return res.StatusCode
}

func repeat(n, times int) []int {
	all := make([]int, times)
	for i := range all {
		all[i] = n
	}
	return all
}
