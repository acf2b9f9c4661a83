package httpprovider

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// dyingServer answers the first request of a connection and hangs up on every later one after reading it. It counts.
func dyingServer(t *testing.T, answer string) (string, *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	posts := new(atomic.Int32)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for first := true; ; first = false {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					posts.Add(1)
					if !first {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: "+strconv.Itoa(len(answer))+"\r\n\r\n"+answer)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String(), posts
}

// The trap: with an Idempotency-Key, Go sends a POST again by itself when a reused connection dies before the answer.
func TestADeadConnectionIsNotSentToTwice(t *testing.T) {
	r := request()
	t.Run("as anyone would write it", func(t *testing.T) {
		url, posts := dyingServer(t, charged(r))
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		for range 2 {
			req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(chargeBody(r)))
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", r.Key.String())
			res, err := transport.RoundTrip(req)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		require.Equal(t, int32(3), posts.Load(), "two calls, three requests: the trap is there")
	})
	t.Run("ours", func(t *testing.T) {
		url, posts := dyingServer(t, charged(r))
		c := client(t, url)
		_, _, err := c.Charge(t.Context(), r)
		require.NoError(t, err)
		call, f := mustFail(t.Context(), t, c, r)
		require.Equal(t, int32(2), posts.Load(), "two calls, two requests")
		require.Equal(t, failure.ProviderReset, f.Reason)
		require.True(t, f.Unknown && call.Sent)
		require.Zero(t, call.Status)
	})
}

// The trap: a redirect turns the POST into a GET whose 200 looks like a success, or carries the charge to another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308} {
		r := request()
		var reached atomic.Int32
		target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			reached.Add(1)
			_, _ = io.WriteString(w, charged(r))
		})
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", target)
			w.WriteHeader(status)
		})
		call, f := mustFail(t.Context(), t, client(t, url), r)
		require.Equal(t, failure.ProviderMisaddressed, f.Reason)
		require.False(t, f.Unknown)
		require.Equal(t, status, call.Status)
		require.Zero(t, reached.Load(), status)
	}
}

func TestATruncatedSuccessIsUnknown(t *testing.T) {
	r := request()
	for name, handler := range map[string]http.HandlerFunc{
		"nothing after the head": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			_ = http.NewResponseController(w).Flush()
		},
		"content length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			_, _ = io.WriteString(w, charged(r))
		},
		"chunked, a whole charge but no end": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, charged(r))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		call, f := mustFail(t.Context(), t, client(t, serve(t, handler)), r)
		require.Equal(t, failure.ProviderBadAnswer, f.Reason, name)
		require.True(t, f.Unknown && call.Sent, name)
		require.Equal(t, 200, call.Status)
	}
}

// The trap: io.LimitReader cuts in silence, so that a charge followed by ten gigabytes would read as a charge.
func TestAnEndlessAnswerIsCutAndNotTrusted(t *testing.T) {
	r := request()
	written := make(chan int64, 1)
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.FormatInt(10<<30, 10))
		n, _ := io.WriteString(w, charged(r))
		m, _ := io.Copy(w, io.LimitReader(spaces{}, 10<<30-int64(n)))
		written <- m
	})
	call, f := mustFail(t.Context(), t, client(t, url), r)
	require.Equal(t, failure.ProviderBadAnswer, f.Reason)
	require.Contains(t, f.Detail, "larger than 64 KiB")
	require.True(t, f.Unknown && call.Sent)
	require.Less(t, <-written, int64(64<<20), "what the sockets buffer")
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{' '}, len(p))), nil }

func TestTheDeadlineCoversTheBody(t *testing.T) {
	r := request()
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		drip := time.NewTicker(10 * time.Millisecond)
		defer drip.Stop()
		for _, b := range []byte(charged(r)) {
			_, _ = w.Write([]byte{b})
			_ = http.NewResponseController(w).Flush()
			select {
			case <-drip.C:
			case <-req.Context().Done():
				return
			}
		}
	})
	start := time.Now()
	call, f := mustFail(t.Context(), t, client(t, url, timeout(150*time.Millisecond)), r)
	require.Equal(t, failure.ProviderTimeout, f.Reason)
	require.True(t, f.Unknown && call.Sent)
	require.Equal(t, 200, call.Status)
	require.Less(t, time.Since(start), time.Second)
}

// The trap: Go asks for gzip and unpacks it by itself, a thousand bytes for one.
func TestAGzipBombStaysPacked(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(bytes.Repeat([]byte{' '}, 50<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.Less(t, bomb.Len(), maxAnswer)
	var asked []string
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		asked = req.Header["Accept-Encoding"]
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	call, f := mustFail(t.Context(), t, client(t, url), request())
	require.Equal(t, failure.ProviderBadAnswer, f.Reason)
	require.Empty(t, asked)
	require.True(t, f.Unknown && call.Sent)
}

func TestAnswersThatAreNotHTTP(t *testing.T) {
	for name, raw := range map[string]string{
		"garbage":        "customer_id=7 \x15\x03\x01\r\n\r\n",
		"HTTP/2":         "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64",
		"two lengths":    "HTTP/1.1 201 Created\r\nContent-Length: 5\r\nContent-Length: 500\r\n\r\n{}",
		"length below 0": "HTTP/1.1 201 Created\r\nContent-Length: -1\r\n\r\n{}",
		"large header":   "HTTP/1.1 201 Created\r\nX: " + string(bytes.Repeat([]byte{'x'}, 10<<20)) + "\r\n\r\n",
		"half a header":  "HTTP/1.1 201 Cre",
		"nothing":        "",
	} {
		url := rawServer(t, raw, "")
		call, f := mustFail(t.Context(), t, client(t, url), request())
		require.Equal(t, failure.ProviderReset, f.Reason, name)
		require.True(t, f.Unknown && call.Sent, name)
		require.NotContains(t, f.Error(), "customer_id=7", "what cannot be read is not quoted")
	}
	call, f := mustFail(t.Context(), t, client(t, rawServer(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "")), request())
	require.Equal(t, failure.ProviderBadAnswer, f.Reason)
	require.True(t, f.Unknown && call.Sent)
}

// rawServer reads one request of each connection, writes the text, then the other one until nobody listens, and hangs up.
func rawServer(t *testing.T, raw, again string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
				_, err = io.WriteString(conn, raw)
				for err == nil && again != "" {
					_, err = io.WriteString(conn, again)
				}
			}
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

var _ billing.Provider = (*Client)(nil)
