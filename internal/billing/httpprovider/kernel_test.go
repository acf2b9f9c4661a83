package httpprovider

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// holder is a TCP proxy that takes what a client sends and passes it on when it is let go: a queue on the way, or a buffer
// of the kernel.
type holder struct {
	addr string
	held atomic.Int64 // bytes taken and not passed on
	let  chan struct{}
	gone chan error // how the client's side of a connection ended
}

func newHolder(t *testing.T, target string) *holder {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	h := &holder{addr: "http://" + listener.Addr().String(), let: make(chan struct{}), gone: make(chan error, 1)}
	go func() {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		buffer := make([]byte, 64<<10)
		n, err := client.Read(buffer)
		h.held.Store(int64(n))
		if err == nil {
			_, err = client.Read(make([]byte, 1))
		}
		h.gone <- err
		<-h.let
		server, err := (&net.Dialer{}).Dial("tcp4", target)
		if err != nil {
			return
		}
		defer server.Close()
		_, _ = server.Write(buffer[:n])
		_, _ = io.Copy(io.Discard, server)
	}()
	return h
}

// What has left for the network is not called back by giving up: a request that stood in a queue is charged when it gets
// through, however late that is. So a timeout leaves the outcome unknown and marks the order as sent; how long after it a
// look-up may call a charge absent is BILLING_PROVIDER_MAX_PROCESSING, which must cover such a queue.
func TestAHeldRequestArrivesAfterWeGaveUp(t *testing.T) {
	arrived := make(chan string, 1)
	r := request()
	url := serve(t, func(_ http.ResponseWriter, req *http.Request) { arrived <- req.Header.Get("Idempotency-Key") })
	h := newHolder(t, url[len("http://"):])
	call, f := mustFail(t.Context(), t, client(t, h.addr, timeout(100*time.Millisecond)), r)
	require.Equal(t, failure.ProviderTimeout, f.Reason)
	require.True(t, call.Sent && f.Unknown)
	require.Positive(t, h.held.Load())
	require.Error(t, <-h.gone, "the connection is closed as soon as we give up, and takes no byte more")
	require.Empty(t, arrived)
	close(h.let)
	require.Equal(t, r.Key.String(), <-arrived)
}

// A connection on which we gave up is closed with RST, not with FIN: by TCP's rule our kernel then throws away what it has
// not sent yet.
func TestAConnectionIsResetWhenWeGiveUp(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = io.Copy(io.Discard, conn) // takes all that comes until the end
			_ = conn.Close()
		}
		ended <- err
	}()
	_, f := mustFail(t.Context(), t, client(t, "http://"+listener.Addr().String(), timeout(100*time.Millisecond)), request())
	require.Equal(t, failure.ProviderTimeout, f.Reason)
	require.Error(t, <-ended, "closed with RST")
}

// After an answer that a sick node may have given, the next attempt takes another connection.
func TestASickNodeIsLeft(t *testing.T) {
	for _, status := range []int{302, 401, 403, 404, 500, 503, 402, 429} {
		conns := map[string]bool{}
		c := client(t, serve(t, func(w http.ResponseWriter, req *http.Request) {
			conns[req.RemoteAddr] = true
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "sick")
		}))
		for range 2 {
			_, _ = mustFail(t.Context(), t, c, request())
		}
		want := 2
		if status == 402 || status == 429 {
			want = 1
		}
		require.Len(t, conns, want, status)
	}
}
