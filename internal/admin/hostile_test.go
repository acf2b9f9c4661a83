package admin_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// dial is a caller that speaks byte by byte.
func (w *world) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// Whoever sends a request slowly, or never the rest of it, is cut off, and keeps nobody else waiting.
func TestSlowCallersAreCutOff(t *testing.T) {
	w := newWorld(t).serve()
	var all sync.WaitGroup
	for name, c := range map[string]struct {
		start, drip string
		limit       time.Duration
	}{
		"a head without end": {"GET /healthz HTTP/1.1\r\nHost: x\r\n", "X: y\r\n", 5 * time.Second},
		"a body without end": {"POST " + w.replayPath() + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + operator + "\r\nContent-Length: 1000\r\n\r\n", " ", 15 * time.Second},
		"nothing at all":     {"", "", 5 * time.Second},
	} {
		conn := w.dial(t)
		all.Go(func() {
			took := endures(conn, c.start, c.drip)
			if took < c.limit-time.Second || took > c.limit+5*time.Second { // something for a busy machine
				t.Errorf("%s was cut off after %s", name, took)
			}
		})
	}
	require.Equal(t, http.StatusOK, w.get("/healthz").status, "others are served")
	all.Wait()
}

// endures sends the start, then a little ten times a second, and returns how long the server put up with it.
func endures(conn net.Conn, start, drip string) time.Duration {
	begun, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn) // whatever it is answered, then the end
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for next := start; ; next = drip {
		_, _ = io.WriteString(conn, next) // fails once it is cut off
		select {
		case <-ended:
			return time.Since(begun)
		case <-tick.C:
		}
	}
}

// No spelling of an address gives anything without a token, or anything but a refusal with one.
func TestPathTricks(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	long := strings.Repeat("a", 15<<10)
	for _, path := range []string{
		"/admin/dlq/%2e%2e/messages", "/admin/dlq/../dlq", "/admin/dlq/..%2f..%2fmetrics/messages", "/admin/dlq/%00/messages", "/admin/dlq/%0d%0aX:%20y/messages",
		"/admin/dlq/" + long + "/messages", "/admin/orders/%00", "/admin/orders/" + long, "/admin/orders/" + uuid.Nil.String() + "%00", "/healthz/../admin/dlq",
		w.messages() + "/%2e%2e/0", w.messages() + "/0/0%00", w.messages() + "/0x0/0", w.messages() + "/0/99999999999999999999", w.messages() + "/0/0/", w.messages() + "%20",
		"//admin/dlq", "/admin//dlq", "/ADMIN/dlq", "/admin/dlq;x=y", "/admin/dlq/", "/.%2fadmin/dlq", "/admin/dlq%3flimit=1", "/metrics/%2e%2e/admin/dlq",
	} {
		for _, token := range []string{"", viewer} {
			status, body := w.raw(t, http.MethodGet, path, "Authorization: Bearer "+token)
			require.Contains(t, []int{400, 401, 404, 429}, status, "%.60s", path)
			require.NotContains(t, body, "by_reason", "%.60s", path)
		}
	}
	// The same address in another spelling is the same address, behind the same door.
	status, _ := w.raw(t, http.MethodGet, "/%61dmin/dlq")
	require.Contains(t, []int{401, 404, 429}, status)
	for _, method := range []string{"TRACE", "CONNECT", "PUT", "BREW", "get"} {
		status, _ := w.raw(t, method, "/admin/dlq", "Authorization: Bearer "+operator)
		require.Contains(t, []int{400, 404, 405}, status, method)
	}
	require.NotContains(t, w.log.String(), "level=ERROR")
}

// raw asks as no client would, and returns what it is answered.
func (w *world) raw(t *testing.T, method, path string, headers ...string) (status int, body string) {
	t.Helper()
	conn := w.dial(t)
	_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n\r\n", method, path, strings.Join(headers, "\r\n"))
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	for name := range res.Header {
		require.NotContains(t, []string{"X", "Set-Cookie"}, name, "a header of the caller's own")
	}
	return res.StatusCode, string(text)
}

func TestTooMuchOfEverything(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	auth := "Authorization: Bearer " + operator
	for name, c := range map[string]struct {
		query   string
		headers []string
		want    int
	}{
		"10,000 parameters":      {"?" + strings.Repeat("limit=1&", 10_000), nil, 431},
		"1,500 parameters":       {"?" + strings.Repeat("limit=1&", 1_500), nil, 400},
		"1,500 other parameters": {"?" + strings.Repeat("x&", 1_500), nil, 400},
		"a huge parameter":       {"?cursor=" + strings.Repeat("A", 15<<10), nil, 400},
		"NUL in a parameter":     {"?order_id=%00", nil, 400},
		"half an escape":         {"?limit=%2", nil, 400},
		"a header of 1 MB":       {"", []string{"X-Long: " + strings.Repeat("x", 1<<20)}, 431},
		"10,000 headers":         {"", []string{strings.Repeat("X-Many: y\r\n", 10_000) + "X-Many: y"}, 431},
		"an id of two lines":     {"", []string{"X-Request-Id: a\r\n Set-Cookie: b"}, 200},
		"an id with an escape":   {"", []string{"X-Request-Id: \x1b[2J"}, 400},
		"a token of 10 KB":       {"", []string{"Authorization: Bearer " + strings.Repeat("x", 10<<10)}, 400}, // the second one
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.dial(t)
			request := fmt.Sprintf("GET %s%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n\r\n", w.messages(), c.query, strings.Join(append([]string{auth}, c.headers...), "\r\n"))
			_, _ = io.WriteString(conn, request) // it may be cut off in the middle
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer func() { _ = res.Body.Close() }()
			require.Equal(t, c.want, res.StatusCode)
			require.Empty(t, res.Header["Set-Cookie"])
		})
	}
	// A form is no JSON, and sets nothing: not even a parameter of the query.
	for contentType, body := range map[string]string{
		"application/x-www-form-urlencoded": "reason=x&dry_run=true",
		"multipart/form-data; boundary=b":   "--b\r\nContent-Disposition: form-data; name=\"reason\"\r\n\r\nx\r\n--b--\r\n",
		"text/xml":                          "<reason>x</reason>",
	} {
		r := w.call(operator, http.MethodPost, w.replayPath(), body, "Content-Type", contentType)
		require.Equal(t, http.StatusBadRequest, r.status, contentType)
	}
	require.Len(t, w.get(w.messages() + "?state=open").json(t)["data"], 1, "nothing was replayed")
	require.NotContains(t, w.log.String(), "level=ERROR")
}
