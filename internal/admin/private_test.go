package admin_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/admin"
)

// With a private address, what tells about the inside is not at the public one; without, profiles are nowhere.
func TestThePrivateAddress(t *testing.T) {
	w := newWorld(t)
	w.serve()
	require.Equal(t, http.StatusOK, w.call("", http.MethodGet, "/metrics", "").status)
	require.Equal(t, http.StatusNotFound, w.statusOf(operator, http.MethodGet, "/debug/pprof/"))

	w.cfg.PrivateAddr = "127.0.0.1:0"
	s, err := admin.New(w.cfg, w.deps)
	require.NoError(t, err)
	w.run(s.Run)
	w.url = "http://" + s.Addr()
	require.Equal(t, http.StatusNotFound, w.call("", http.MethodGet, "/metrics", "").status)
	require.Equal(t, http.StatusNotFound, w.statusOf(operator, http.MethodGet, "/debug/pprof/"))
	require.Equal(t, http.StatusOK, w.call("", http.MethodGet, "/healthz", "").status)

	w.url = "http://" + s.PrivateAddr()
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline"} {
		require.Equal(t, http.StatusOK, w.statusOf(operator, http.MethodGet, path), path)
		require.Equal(t, http.StatusOK, w.statusOf(operator, http.MethodHead, path), path)
	}
	for _, path := range []string{"/admin/dlq", "/readyz"} {
		require.Equal(t, http.StatusNotFound, w.statusOf(operator, http.MethodGet, path), path)
	}
	w.cfg.PrivateAddr = s.PrivateAddr()
	_, err = admin.New(w.cfg, w.deps)
	require.ErrorContains(t, err, "listen", "a port in use fails the start")
}

// HEAD is GET without the body, on every address: status and headers are the same.
func TestHeadWorksWhereGetDoes(t *testing.T) {
	w := newWorld(t).serve()
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/admin/openapi.json", "/admin/dlq", w.messages(), "/admin/audit", "/admin/nothing", w.replayPath()} {
		gotStatus, got := w.head(t, http.MethodGet, path)
		status, header := w.head(t, http.MethodHead, path)
		require.Equal(t, gotStatus, status, path)
		require.Equal(t, got.Get("Content-Type"), header.Get("Content-Type"), path)
	}
	require.Equal(t, http.StatusUnauthorized, w.statusOf("wrong-token-0123456789", http.MethodHead, "/admin/dlq"), "behind the same door")
}

// What an address allows is what it answers.
func TestAllowNamesHeadWhereGetIs(t *testing.T) {
	w := newWorld(t).serve()
	for _, method := range []string{http.MethodPut, http.MethodOptions} {
		for path, want := range map[string]string{"/healthz": "OPTIONS, GET, HEAD", "/admin/dlq": "OPTIONS, GET, HEAD", w.replayPath(): "OPTIONS, POST"} {
			_, header := w.head(t, method, path)
			require.Equal(t, want, header.Get("Allow"), "%s %s", method, path)
		}
	}
	_, header := w.head(t, http.MethodGet, "/admin/dlq")
	require.Empty(t, header.Get("Allow"))
}

// head asks and keeps what stands before the body.
func (w *world) head(t *testing.T, method, path string) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+viewer)
	res, err := httpClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, res.Header
}
