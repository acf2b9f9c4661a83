// Package httpprovider charges through the provider's HTTP API.
//
// It promises that one Charge is at most one request on the wire, that nothing is sent past the instant the claim allows,
// that every answer and every broken connection has exactly one reason, and that a success is only what the provider
// spelt out for this very order. It never retries a charge, never follows a redirect, and never puts a token, a key, a
// customer id or a body into an error.
package httpprovider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/crash"
)

// Config of a client.
type Config struct {
	URL      string        // base of the API, "https://provider.example"
	Token    string        // bearer token; none is sent when empty
	Timeout  time.Duration // one request, from the wait for a connection to the last byte of the answer
	MaxConns int           // connections, and so requests at a time

	// Observe is told of each request that was tried: its HTTP status or "error", and how long it took. May be nil.
	Observe func(code string, d time.Duration)
	Clock   func() time.Time // time.Now when nil
}

const (
	maxAnswer      = 64 << 10 // bytes of a body; a charge has some 200
	maxHeader      = 64 << 10
	maxSetting     = 2 << 10          // bytes of URL and Token each, so that a request's head fits the write buffer
	writeBuffer    = 8 << 10          // holds a whole request: its first byte leaves after trip.aboutToWrite
	idleConnection = 30 * time.Second // below a usual server's, so that few requests meet a connection that just closed
)

// Client speaks with one provider. It is safe for concurrent use.
type Client struct {
	cfg       Config
	transport *http.Transport
	charges   *url.URL
	header    http.Header  // of every request; shared, so never changed
	left      atomic.Int64 // Unix nanoseconds: idle connections were let go
}

// New checks the settings. It sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := baseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if len(cfg.Token) > maxSetting || strings.ContainsFunc(cfg.Token, notVisible) {
		return nil, fmt.Errorf("httpprovider: Token must be visible ASCII without spaces, at most %d bytes", maxSetting)
	}
	if cfg.Timeout <= 0 || cfg.MaxConns <= 0 {
		return nil, fmt.Errorf("httpprovider: Timeout is %v and MaxConns %d, want both more than 0", cfg.Timeout, cfg.MaxConns)
	}
	if cfg.Observe == nil {
		cfg.Observe = func(string, time.Duration) {}
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {"billing"}}
	if cfg.Token != "" {
		header.Set("Authorization", "Bearer "+cfg.Token)
	}
	return &Client{cfg: cfg, transport: newTransport(cfg), charges: base.JoinPath("v1", "charges"), header: header}, nil
}

// baseURL refuses what would end up in logs or be dropped in silence. The error does not repeat the URL: it may hold a
// password.
func baseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxSetting || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New(`httpprovider: URL is not an absolute http or https URL such as "https://provider.example"`)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("httpprovider: URL must have no user, query or fragment; credentials go into Token")
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath would otherwise make a relative path, which no server takes
	}
	return u, nil
}

// newTransport is used without an http.Client around it: that would follow a redirect into a GET whose 200 looks like a
// success. The operator's HTTPS_PROXY is kept, as of any service.
func newTransport(cfg Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // one request, one connection: what was sent is never a question of frames
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial(&net.Dialer{Timeout: cfg.Timeout, KeepAlive: 15 * time.Second}),
		TLSHandshakeTimeout:    cfg.Timeout,
		Protocols:              protocols,
		DisableCompression:     true, // 64 KiB of gzip can be 64 MiB of zeros
		MaxConnsPerHost:        cfg.MaxConns,
		MaxIdleConnsPerHost:    cfg.MaxConns,
		IdleConnTimeout:        idleConnection,
		MaxResponseHeaderBytes: maxHeader,
		WriteBufferSize:        writeBuffer,
	}
}

// dial makes connections that are reset when they are closed. Closed the usual way, a connection to a provider that takes
// nothing keeps the request in the kernel and delivers it minutes after we gave up (hazards H1, H2).
func dial(d *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		if tcp, ok := conn.(*net.TCPConn); err == nil && ok {
			err = tcp.SetLinger(0)
		}
		return conn, err
	}
}

// leaveNode lets idle connections go, once a second at most. A connection stays with one node behind a balancer: kept
// alive, it would lead the next attempts to the node that is sick (hazard H34). Requests under way are not touched.
func (c *Client) leaveNode(status int) {
	switch {
	case status/100 == 3, status/100 == 5:
	case status == 401, status == 403, status == 404, status == 405, status == 407, status == 410, status == 421:
	default:
		return
	}
	now := c.cfg.Clock().UnixNano()
	if left := c.left.Load(); now-left >= int64(time.Second) && c.left.CompareAndSwap(left, now) {
		c.transport.CloseIdleConnections()
	}
}

// Charge implements billing.Provider.
func (c *Client) Charge(ctx context.Context, r billing.ChargeRequest) (billing.ProviderCharge, billing.Call, error) {
	crash.At(crash.BeforeSend)
	a, err := c.exchange(ctx, c.chargeRequest(r), r.SendBy, maxAnswer)
	crash.At(crash.AfterAnswer)
	call := billing.Call{
		Sent: a.sent, Status: a.status, RequestID: visible(a.header.Get("Request-Id")),
		Replayed: a.header.Get("Idempotent-Replayed") == "true",
	}
	if err != nil {
		return billing.ProviderCharge{}, call, err
	}
	if !a.success() {
		p := a.problem(c.cfg.Token, r.Key.String(), r.CustomerID.String())
		call.Code = p.Code
		return billing.ProviderCharge{}, call, a.refusal(p, c.cfg.Clock())
	}
	charge, err := successOf(a, r)
	return charge, call, err
}

// Find implements billing.Provider. What it fails with never says that money may have moved: a look-up moves none. Nor
// does it decide an order: what would be the order's own fault on a charge is a bad answer here.
func (c *Client) Find(ctx context.Context, reference uuid.UUID) ([]billing.ProviderCharge, bool, error) {
	found, consistent, err := c.find(ctx, reference)
	if err == nil {
		return found, consistent, nil
	}
	return nil, false, ofLookUp(err)
}

func ofLookUp(err error) *failure.Error {
	f := failure.Of(err)
	f.Unknown = false
	if failure.Hold.Fault(f.Reason) == failure.OfMessage {
		f.Reason = failure.ProviderBadAnswer
	}
	return f
}

func (c *Client) find(ctx context.Context, reference uuid.UUID) ([]billing.ProviderCharge, bool, error) {
	a, err := c.exchange(ctx, c.findRequest(reference), c.cfg.Clock().Add(c.cfg.Timeout), maxAnswer)
	if err != nil {
		return nil, false, err
	}
	if a.status != http.StatusOK {
		return nil, false, a.refusal(a.problem(c.cfg.Token), c.cfg.Clock())
	}
	return listOf(a)
}

// Close lets idle connections go. Requests under way are not touched.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// label keeps the metric's label bounded, whatever number a provider answers with.
func label(status int) string {
	if status < 100 || status > 599 {
		return "error"
	}
	return strconv.Itoa(status)
}
