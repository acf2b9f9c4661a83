package httpprovider

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/failure"
)

// silent takes requests, tells of each and never answers.
func silent(t *testing.T) (url string, arrived chan struct{}) {
	arrived = make(chan struct{}, 10)
	return serve(t, func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		arrived <- struct{}{}
		<-req.Context().Done()
	}), arrived
}

func TestAHangIsUnknown(t *testing.T) {
	url, arrived := silent(t)
	call, f := mustFail(t.Context(), t, client(t, url, timeout(50*time.Millisecond)), request())
	require.Equal(t, failure.ProviderTimeout, f.Reason, f.Detail)
	require.True(t, f.Unknown && call.Sent)
	require.Zero(t, call.Status)
	<-arrived
}

// SendBy bounds when a request begins. Its answer has the whole timeout, as long as the lease lasts: the caller's deadline.
func TestTheAnswerMayComeAfterSendBy(t *testing.T) {
	sim, err := providersim.New(providersim.Config{Token: token, SlowFor: 500 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, sim.SetMode(providersim.Slow, time.Time{}))
	r := request()
	r.SendBy = time.Now().Add(250 * time.Millisecond)
	charge, call, err := client(t, serve(t, sim.Handler().ServeHTTP)).Charge(t.Context(), r)
	require.NoError(t, err)
	require.True(t, time.Now().After(r.SendBy), "the answer was late enough")
	require.Equal(t, r.Reference, charge.Reference)
	require.True(t, call.Sent)
}

func TestTheLeasesEndEndsTheRequest(t *testing.T) {
	url, _ := silent(t)
	lease, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	call, f := mustFail(lease, t, client(t, url, timeout(time.Minute)), request())
	require.Equal(t, failure.ProviderTimeout, f.Reason, f.Detail)
	require.True(t, f.Unknown && call.Sent)
}

func TestWhatIsNotSentIsProvenNotSent(t *testing.T) {
	wrongCert := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(wrongCert.Close)
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	for name, test := range map[string]struct {
		url     string
		timeout time.Duration
		reason  failure.Reason
	}{
		"refused":               {"http://" + closedPort(t), time.Minute, failure.ProviderUnreachable},
		"unknown certificate":   {wrongCert.URL, time.Minute, failure.ProviderTLS},
		"HTTP on a TLS port":    {"https" + plain[len("http"):], time.Minute, failure.ProviderTLS},
		"hangs up in handshake": {"https://" + hangUp(t), time.Minute, failure.ProviderUnreachable},
		"hangs in handshake":    {"https://" + mute(t), 100 * time.Millisecond, failure.ProviderUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			call, f := mustFail(t.Context(), t, client(t, test.url, timeout(test.timeout)), request())
			require.Equal(t, test.reason, f.Reason, f.Error())
			require.False(t, call.Sent)
			require.False(t, f.Unknown)
			require.Zero(t, call.Status)
			require.NotContains(t, f.Detail, "broke off", "the cause is told")
		})
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// hangUp closes each connection after its first bytes.
func hangUp(t *testing.T) string {
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
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// mute is a port whose connections are made by the kernel and taken by nobody.
func mute(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestWaitingForAConnectionSendsNothing(t *testing.T) {
	url, arrived := silent(t)
	c := client(t, url, func(cfg *Config) { cfg.MaxConns = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := c.Charge(ctx, request())
		done <- err
	}()
	select {
	case <-arrived:
	case err := <-done:
		require.FailNow(t, "the first request did not arrive", "%v", err)
	}
	lease, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	call, f := mustFail(lease, t, c, request())
	require.Equal(t, failure.ProviderUnreachable, f.Reason)
	require.False(t, call.Sent || f.Unknown)
	cancel()
	require.Equal(t, failure.ShuttingDown, failure.Of(<-done).Reason)
	require.Empty(t, arrived)
}

func TestNothingIsSentPastSendBy(t *testing.T) {
	var bytes atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Listener = &counting{s.Listener, &bytes}
	s.Start()
	t.Cleanup(s.Close)

	t.Run("already past", func(t *testing.T) {
		r := request()
		r.SendBy = time.Now().Add(-time.Nanosecond)
		call, f := mustFail(t.Context(), t, client(t, s.URL), r)
		require.Equal(t, failure.ProviderTimeout, f.Reason, f.Detail)
		require.False(t, call.Sent || f.Unknown)
	})
	t.Run("no instant at all", func(t *testing.T) {
		r := request()
		r.SendBy = time.Time{}
		call, _ := mustFail(t.Context(), t, client(t, s.URL), r)
		require.False(t, call.Sent)
	})
	// The process was frozen between the first look at the clock and the write (hazard H1).
	for name, strip := range map[string]bool{"frozen": false, "frozen, wall clock only": true} {
		t.Run(name, func(t *testing.T) {
			looks := 0
			r := request()
			c := client(t, s.URL, func(cfg *Config) {
				cfg.Clock = func() time.Time {
					now := time.Now()
					if looks++; looks > 1 {
						now = now.Add(time.Hour)
					}
					if strip {
						now = now.Round(0)
					}
					return now
				}
			})
			call, f := mustFail(t.Context(), t, c, r)
			require.Equal(t, failure.ProviderTimeout, f.Reason, f.Detail)
			require.False(t, call.Sent || f.Unknown)
		})
	}
	// The connection came after SendBy, but within timeout and lease.
	t.Run("slow to connect", func(t *testing.T) {
		r := request()
		r.SendBy = time.Now().Add(50 * time.Millisecond)
		c := client(t, s.URL)
		dial := c.transport.DialContext
		c.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			<-time.After(time.Until(r.SendBy))
			return dial(ctx, network, addr)
		}
		call, f := mustFail(t.Context(), t, c, r)
		require.Equal(t, failure.ProviderTimeout, f.Reason, f.Detail)
		require.False(t, call.Sent || f.Unknown)
	})
	require.Zero(t, bytes.Load(), "not one byte arrived")
}

func TestTheShorterClockCounts(t *testing.T) {
	now := time.Now()
	require.Equal(t, time.Minute, remaining(now, now.Add(time.Minute)))
	require.Equal(t, time.Minute, remaining(now.Round(0), now.Add(time.Minute)))
	require.Equal(t, time.Minute, remaining(now, now.Add(time.Minute).Round(0)))
	require.Equal(t, -time.Minute, remaining(now, now.Add(-time.Minute)))
}

func TestOurShutdown(t *testing.T) {
	t.Run("before the send", func(t *testing.T) {
		url, arrived := silent(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		call, f := mustFail(ctx, t, client(t, url), request())
		require.Equal(t, failure.ShuttingDown, f.Reason)
		require.False(t, call.Sent || f.Unknown)
		require.Empty(t, arrived)
	})
	t.Run("after the send", func(t *testing.T) {
		url, arrived := silent(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		call, f := mustFail(ctx, t, client(t, url), request())
		require.Equal(t, failure.ShuttingDown, f.Reason)
		require.True(t, call.Sent && f.Unknown)
	})
	t.Run("in the body of a success", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := request()
		url := serve(t, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.WriteString(w, charged(r)[:50])
			_ = http.NewResponseController(w).Flush()
			cancel()
			<-req.Context().Done()
		})
		call, f := mustFail(ctx, t, client(t, url), r)
		require.Equal(t, failure.ShuttingDown, f.Reason)
		require.True(t, call.Sent && f.Unknown)
	})
	t.Run("a decline without its body decides nothing", func(t *testing.T) {
		url := serve(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusPaymentRequired)
			_ = http.NewResponseController(w).Flush()
			<-req.Context().Done()
		})
		call, f := mustFail(t.Context(), t, client(t, url, timeout(50*time.Millisecond)), request())
		require.Equal(t, failure.ProviderTimeout, f.Reason)
		require.Equal(t, 402, call.Status)
		require.True(t, f.Unknown)
	})
}

// counting counts the bytes that arrive at a listener.
type counting struct {
	net.Listener
	n *atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countingConn{c, l.n}, err
}

type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}
