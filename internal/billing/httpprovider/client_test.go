package httpprovider

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

func TestChargeOnTheWire(t *testing.T) {
	r := request()
	r.Amount = billing.Money{Minor: 18600, Currency: "KWD"}
	r.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var seen *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		seen = req
		body, _ = io.ReadAll(req.Body)
		w.Header().Set("Request-Id", "req_7")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, charged(r))
	})
	charge, call, err := client(t, url+"/base/").Charge(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, billing.Call{Sent: true, Status: 201, RequestID: "req_7"}, call)
	require.Equal(t, billing.ProviderCharge{
		ID: "ch_1", Reference: r.Reference, Amount: r.Amount, CreatedAt: time.Date(2026, 1, 2, 15, 4, 5, 123e6, time.UTC),
	}, charge)

	require.Equal(t, "POST /base/v1/charges HTTP/1.1", seen.Method+" "+seen.RequestURI+" "+seen.Proto)
	require.Equal(t, http.Header{
		"Accept": {"application/json"}, "Authorization": {"Bearer " + token}, "Content-Length": seen.Header["Content-Length"],
		"Content-Type": {"application/json"}, "Idempotency-Key": {r.Key.String()}, "Traceparent": {r.Traceparent}, "User-Agent": {"billing"},
	}, seen.Header)
	require.JSONEq(t, `{"reference":"`+r.Reference.String()+`","customer_id":"`+r.CustomerID.String()+`","amount":"18.600","currency":"KWD"}`, string(body))
	require.Equal(t, int64(len(body)), seen.ContentLength, "one write, not chunks")
}

func TestReplayedChargeIsASuccess(t *testing.T) {
	r := request()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Idempotent-Replayed", "true")
		_, _ = io.WriteString(w, charged(r))
	})
	charge, call, err := client(t, url).Charge(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "ch_1", charge.ID)
	require.Equal(t, billing.Call{Sent: true, Status: 200, Replayed: true}, call)
}

// A broken trace header comes from a message. It must neither split the request's head nor make the order unsendable.
func TestTraceparentIsSentOnlyInItsForm(t *testing.T) {
	good := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	cases := map[string]bool{
		good: true, "": false, good + "\r\nX-Evil: 1": false, "\x00": false, strings.ToUpper(good): false, good + "-more": false,
		"ff" + good[2:]: false, "00-" + strings.Repeat("0", 32) + good[35:]: false, good[:36] + strings.Repeat("0", 16) + "-01": false,
		strings.Replace(good, "-", "_", 1): false, good[:20] + "\n" + good[21:]: false,
	}
	r := request()
	var seen http.Header
	c := client(t, serve(t, func(w http.ResponseWriter, req *http.Request) {
		seen = req.Header
		_, _ = io.WriteString(w, charged(r))
	}))
	for value, sent := range cases {
		r.Traceparent = value
		_, _, err := c.Charge(t.Context(), r)
		require.NoError(t, err, "%q", value)
		if sent {
			require.Equal(t, []string{value}, seen["Traceparent"])
		} else {
			require.NotContains(t, seen, "Traceparent", "%q", value)
		}
		require.NotContains(t, seen, "X-Evil")
	}
}

func TestConnectionsAreReusedAndBounded(t *testing.T) {
	var mu sync.Mutex
	conns, now, most, requests := map[string]bool{}, 0, 0, 0
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		conns[req.RemoteAddr] = true
		now++
		most = max(most, now)
		requests++
		status := []int{201, 402, 500, 429}[requests%4]
		mu.Unlock()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"code":"x"}`)
		mu.Lock()
		now--
		mu.Unlock()
	})
	c := client(t, url, func(cfg *Config) { cfg.MaxConns = 3 })
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			for range 5 {
				_, _, err := c.Charge(t.Context(), request())
				require.Error(t, err)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, len(conns), 3, "150 requests, refused ones too, went over at most three connections")
	require.LessOrEqual(t, most, 3)
	require.Equal(t, 150, requests)
}

func TestHTTP2IsNotSpoken(t *testing.T) {
	r := request()
	var proto string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		proto = req.Proto
		_, _ = io.WriteString(w, charged(r))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	c := client(t, s.URL)
	c.transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	c.transport.TLSClientConfig.NextProtos = nil
	_, _, err := c.Charge(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1", proto)
}

func TestEachRequestIsObservedOnce(t *testing.T) {
	var codes []string
	observe := func(cfg *Config) {
		cfg.Observe = func(code string, d time.Duration) {
			require.Positive(t, d)
			codes = append(codes, code)
		}
	}
	status := 402
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }), observe)
	_, _ = mustFail(t.Context(), t, c, request())
	status = 799
	_, _ = mustFail(t.Context(), t, c, request())
	_, _ = mustFail(t.Context(), t, client(t, "http://127.0.0.1:1", observe), request())
	late := request()
	late.SendBy = time.Now().Add(-time.Second)
	_, _ = mustFail(t.Context(), t, c, late)
	require.Equal(t, []string{"402", "error", "error"}, codes, "what was not tried is not counted")
}

func TestSettingsAreChecked(t *testing.T) {
	good := Config{URL: "https://provider.example/api", Token: token, Timeout: time.Second, MaxConns: 1}
	_, err := New(good)
	require.NoError(t, err)
	for name, change := range map[string]func(*Config){
		"no URL":         func(c *Config) { c.URL = "" },
		"no scheme":      func(c *Config) { c.URL = "provider.example" },
		"other scheme":   func(c *Config) { c.URL = "ftp://provider.example" },
		"password":       func(c *Config) { c.URL = "https://user:hunter2@provider.example" },
		"broken, secret": func(c *Config) { c.URL = "https://user:hunter2@provider.example:x" },
		"query":          func(c *Config) { c.URL = "https://provider.example?a=b" },
		"token newline":  func(c *Config) { c.Token = "hunter2\n" },
		"token long":     func(c *Config) { c.Token = strings.Repeat("x", 5000) },
		"no timeout":     func(c *Config) { c.Timeout = 0 },
		"no connections": func(c *Config) { c.MaxConns = 0 },
	} {
		cfg := good
		change(&cfg)
		_, err := New(cfg)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "hunter2", name)
	}
}

func TestFind(t *testing.T) {
	r := request()
	var status int
	var body, asked string
	c := client(t, serve(t, func(w http.ResponseWriter, req *http.Request) {
		asked = req.Method + " " + req.RequestURI
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	for name, test := range map[string]struct {
		status     int
		body       string
		found      int
		consistent bool
		reason     failure.Reason
	}{
		"one":                {200, `{"data":[` + charged(r) + `],"consistent":true}`, 1, true, ""},
		"two":                {200, `{"data":[` + charged(r) + `,` + charged(r) + `],"consistent":true}`, 2, true, ""},
		"none":               {200, `{"data":[],"consistent":true}`, 0, true, ""},
		"not consistent":     {200, `{"data":[],"consistent":false}`, 0, false, ""},
		"consistent absent":  {200, `{"data":[]}`, 0, false, ""},
		"consistent a text":  {200, `{"data":[],"consistent":"true"}`, 0, false, ""},
		"data absent":        {200, `{"consistent":true}`, 0, false, failure.ProviderBadAnswer},
		"data null":          {200, `{"data":null,"consistent":true}`, 0, false, failure.ProviderBadAnswer},
		"Data":               {200, `{"Data":[],"consistent":true}`, 0, false, failure.ProviderBadAnswer},
		"a charge of no id":  {200, `{"data":[{}],"consistent":true}`, 0, false, failure.ProviderBadAnswer},
		"a pending charge":   {200, `{"data":[` + strings.Replace(charged(r), "succeeded", "pending", 1) + `],"consistent":true}`, 0, false, failure.ProviderBadAnswer},
		"empty":              {200, ``, 0, false, failure.ProviderBadAnswer},
		"created":            {201, `{"data":[],"consistent":true}`, 0, false, failure.ProviderBadAnswer},
		"no content":         {204, ``, 0, false, failure.ProviderBadAnswer},
		"declined":           {402, ``, 0, false, failure.ProviderBadAnswer},
		"bad request":        {400, ``, 0, false, failure.ProviderBadAnswer},
		"wrong token":        {401, ``, 0, false, failure.ProviderUnauthorized},
		"wrong address":      {404, ``, 0, false, failure.ProviderMisaddressed},
		"server error":       {500, ``, 0, false, failure.Provider5xx},
		"too many requests":  {429, ``, 0, false, failure.ProviderRateLimited},
		"larger than a list": {200, strings.Repeat(" ", maxAnswer+1), 0, false, failure.ProviderBadAnswer},
	} {
		status, body = test.status, test.body
		found, consistent, err := c.Find(t.Context(), r.Reference)
		require.Equal(t, "GET /v1/charges?reference="+r.Reference.String(), asked)
		require.Len(t, found, test.found, name)
		require.Equal(t, test.consistent, consistent, name)
		if test.reason == "" {
			require.NoError(t, err, name)
			continue
		}
		f := failed(t, r, err)
		require.Equal(t, test.reason, f.Reason, name)
		require.False(t, f.Unknown, "a look-up moves no money: %s", name)
	}
	f := failed(t, r, func() error { _, _, err := client(t, "http://127.0.0.1:1").Find(t.Context(), uuid.New()); return err }())
	require.Equal(t, failure.ProviderUnreachable, f.Reason)
}
