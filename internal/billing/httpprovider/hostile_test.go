package httpprovider

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// What never ends is cut off long before the timeout, and takes little memory meanwhile. None of it proves anything.
func TestAnswersWithoutEnd(t *testing.T) {
	kilobyte := strings.Repeat("x", 1<<10)
	r := request()
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	chunked := "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n" + chunk(charged(r))
	for name, c := range map[string]struct {
		first, again string
		reason       failure.Reason
	}{
		"status line":       {"HTTP/1.1 201 ", kilobyte, failure.ProviderReset},
		"one header":        {"HTTP/1.1 201 Created\r\nX: ", kilobyte, failure.ProviderReset},
		"many headers":      {"HTTP/1.1 201 Created\r\n", "X: y\r\n", failure.ProviderReset},
		"cookies":           {"HTTP/1.1 201 Created\r\n", "Set-Cookie: a=b\r\n", failure.ProviderReset},
		"100 Continue":      {"", "HTTP/1.1 100 Continue\r\n\r\n", failure.ProviderReset},
		"103 Early Hints":   {"", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", failure.ProviderReset},
		"chunks":            {chunked, chunk(kilobyte), failure.ProviderBadAnswer},
		"size of a chunk":   {chunked, "0", failure.ProviderBadAnswer},
		"chunk extension":   {chunked + "1;", kilobyte, failure.ProviderBadAnswer},
		"trailer":           {chunked + "0\r\nX: ", kilobyte, failure.ProviderBadAnswer},
		"many trailers":     {chunked + "0\r\n", "X: y\r\n", failure.ProviderBadAnswer},
		"until it hangs up": {"HTTP/1.1 201 Created\r\n\r\n" + charged(r), " ", failure.ProviderBadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			cl := client(t, rawServer(t, c.first, c.again))
			start, before := time.Now(), allocated()
			call, f := mustFail(t.Context(), t, cl, r)
			require.Less(t, time.Since(start), 4*time.Second, "cut off before the timeout")
			require.Less(t, allocated()-before, uint64(8<<20))
			require.Equal(t, c.reason, f.Reason, f.Error())
			require.True(t, f.Unknown && call.Sent)
			require.LessOrEqual(t, len(f.Detail), 300)
		})
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// What comes after the last chunk is no part of the charge, as long as it ends in order.
func TestTrailers(t *testing.T) {
	r := request()
	for trailer, good := range map[string]bool{"": true, "X: y\r\n": true, "no colon\r\n": false, "\x00\x01\r\n": false, " : \r\n": false} {
		raw := fmt.Sprintf("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n%x\r\n%s\r\n0\r\n%s\r\n", len(charged(r)), charged(r), trailer)
		_, call, err := client(t, rawServer(t, raw, "")).Charge(t.Context(), r)
		require.True(t, call.Sent)
		if good {
			require.NoError(t, err, "%q", trailer)
			continue
		}
		f := failed(t, r, err)
		require.Equal(t, failure.ProviderBadAnswer, f.Reason, "%q", trailer)
		require.True(t, f.Unknown)
	}
}

// A server that closes connections between requests, as it may: some requests meet a dead one. None is sent twice for it.
func TestConnectionsThatDieBetweenRequests(t *testing.T) {
	r := request()
	var posts atomic.Int32
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		posts.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil { // it does not say that it will close
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(charged(r)), charged(r))
			_ = conn.Close()
		}
	})
	c, calls, broken := client(t, url), int32(0), 0
	for calls = range 200 {
		if _, call, err := c.Charge(t.Context(), r); err != nil {
			f := failed(t, r, err)
			require.Equal(t, failure.ProviderReset, f.Reason)
			require.True(t, f.Unknown && call.Sent)
			broken++
		}
	}
	t.Logf("%d of %d requests met a dead connection", broken, calls+1)
	require.LessOrEqual(t, posts.Load(), calls+1)
}

// An answer that nobody asked for waits on the connection. It is never taken for the success of the next order.
func TestAnswersThatNobodyAskedFor(t *testing.T) {
	first := request()
	good := fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(charged(first)), charged(first))
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, in, err := http.NewResponseController(w).Hijack()
		for err == nil { // the first answer is the one to a request that has ended
			_, _ = io.WriteString(conn, good+good)
			var req *http.Request
			if req, err = http.ReadRequest(in.Reader); err == nil {
				_, err = io.Copy(io.Discard, req.Body)
			}
		}
		_ = conn.Close()
	})
	c := client(t, url)
	_, _, err := c.Charge(t.Context(), first)
	require.NoError(t, err)
	for range 100 {
		r := request()
		_, call, err := c.Charge(t.Context(), r)
		f := failed(t, r, err)
		require.True(t, f.Unknown && call.Sent)
		require.Contains(t, []failure.Reason{failure.ProviderBadAnswer, failure.ProviderReset}, f.Reason)
	}
}

func TestCookiesAreNotKept(t *testing.T) {
	r := request()
	var cookies []string
	c := client(t, serve(t, func(w http.ResponseWriter, req *http.Request) {
		cookies = append(cookies, req.Header.Values("Cookie")...)
		w.Header().Set("Set-Cookie", "session=1; Path=/")
		_, _ = io.WriteString(w, charged(r))
	}))
	for range 2 {
		_, _, err := c.Charge(t.Context(), r)
		require.NoError(t, err)
	}
	require.Empty(t, cookies)
}
