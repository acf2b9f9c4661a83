package httpprovider

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// answer is what came back.
type answer struct {
	sent   bool // true whenever money may have moved
	status int  // 0 when there was no answer
	header http.Header
	body   []byte
	broken *failure.Error // why the body is not whole; nil when it is
}

// exchange sends one request, not past sendBy, and reads the answer whole, up to a limit. The error is a failure to get an
// answer; what the answer says is for the caller. Everything, the body too, happens within the timeout, and before the
// parent's deadline, which is the end of the lease.
func (c *Client) exchange(parent context.Context, req *http.Request, sendBy time.Time, limit int64) (answer, error) {
	start := c.cfg.Clock()
	if remaining(start, sendBy) <= 0 {
		return answer{}, tooLate()
	}
	ctx, cancel := context.WithTimeout(parent, c.cfg.Timeout)
	defer cancel()
	t := &trip{clock: c.cfg.Clock, sendBy: sendBy}
	res, err := c.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, t.hooks())))
	if err != nil {
		c.cfg.Observe("error", c.cfg.Clock().Sub(start))
		return answer{sent: t.sent()}, t.failed(parent, err)
	}
	defer res.Body.Close()
	a := answer{sent: true, status: res.StatusCode, header: res.Header}
	a.body, err = readCapped(res.Body, limit)
	if err != nil {
		a.broken = interrupted(parent, err, failure.ProviderBadAnswer, "reading the answer")
	}
	c.leaveNode(a.status)
	c.cfg.Observe(label(a.status), c.cfg.Clock().Sub(start))
	return a, nil
}

// remaining is the time until an instant by the monotonic or the wall clock, whichever is shorter: the first stands still
// while the machine is suspended, the second can be set back (hazard H1).
func remaining(now, until time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

func tooLate() *failure.Error {
	f := failure.New(failure.ProviderTimeout, "not sent: the claim no longer covered the request")
	f.Unknown = false
	return f
}

// readCapped reads one byte more than it takes: io.LimitReader alone would make a short body of a long one.
func readCapped(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("%w: larger than %d KiB", billing.ErrTooLarge, limit>>10)
	}
	return body, err
}

// trip watches one request from inside the transport. Its hooks run in goroutines of the transport, and a dial may go on
// after its request was served by another connection.
type trip struct {
	clock  func() time.Time
	sendBy time.Time

	conn     net.Conn // set before anything is written to it
	got      atomic.Bool
	late     atomic.Bool
	tlsBroke atomic.Bool
}

func (t *trip) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		TLSHandshakeDone: t.shookHands,
		GotConn:          t.gotConn,
		WroteHeaders:     t.aboutToWrite,
	}
}

// gotConn is the boundary: before it nothing can have been sent, after it everything can. The kinds of the errors on both
// sides are the same.
func (t *trip) gotConn(info httptrace.GotConnInfo) {
	t.conn = info.Conn
	t.got.Store(true)
}

// aboutToWrite runs when the head stands in the write buffer and nothing has left yet, in the goroutine that writes. It is
// the last look at the clocks before the send: waiting for a connection may have taken long, and a process that was
// frozen wakes up here. A closed connection takes no byte. A pause between this look and the write remains (hazard H1).
func (t *trip) aboutToWrite() {
	if remaining(t.clock(), t.sendBy) <= 0 {
		t.late.Store(true)
		_ = t.conn.Close()
	}
}

func (t *trip) shookHands(_ tls.ConnectionState, err error) {
	if err != nil && !passing(err) {
		t.tlsBroke.Store(true)
	}
}

func (t *trip) sent() bool { return t.got.Load() && !t.late.Load() }
