package shop

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/platform/kafkaclient"
)

// broker acknowledges when it is told to, and keeps what it acknowledged.
type broker struct {
	mu      sync.Mutex
	records []kafkaclient.Record
	err     error
	arrived chan struct{} // when set, told of each record
	release chan struct{} // when set, an acknowledgement waits for it
}

func (b *broker) Publish(ctx context.Context, r kafkaclient.Record) error {
	if b.arrived != nil {
		b.arrived <- struct{}{}
	}
	if b.release != nil {
		select {
		case <-b.release:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.records = append(b.records, r)
	}
	return b.err
}

// open serves a shop and returns its address; stop ends it and returns what Serve returned.
func open(t *testing.T, cfg Config, b *broker) (url string, stop func() error) {
	t.Helper()
	cfg.Topic = "orders.confirmed"
	s, err := New(cfg, b)
	require.NoError(t, err)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() { require.NoError(t, stop()) })
	return "http://" + l.Addr().String(), stop
}

var client = &http.Client{Timeout: 30 * time.Second}

func post(t *testing.T, url, body string, headers ...string) (status int, answer map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/orders", strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	if res.StatusCode >= 400 {
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.EqualValues(t, res.StatusCode, answer["status"])
	}
	return res.StatusCode, answer
}

const customer = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"

func TestAnOrderIsAcknowledgedThenAnswered(t *testing.T) {
	b := &broker{}
	at := time.Date(2026, 1, 2, 15, 4, 5, 123456789, time.UTC)
	url, _ := open(t, Config{Now: func() time.Time { return at }}, b)
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

	status, answer := post(t, url, `{"customer_id":"`+customer+`","total_amount":9007199254740993.01,"currency":"USD"}`, "traceparent", trace)
	require.Equal(t, http.StatusCreated, status)
	require.Len(t, b.records, 1)
	r := b.records[0]
	require.Equal(t, "orders.confirmed", r.Topic)
	require.Equal(t, answer["order_id"], string(r.Key))
	require.Equal(t, []kafkaclient.Header{{Key: "traceparent", Value: []byte(trace)}}, r.Headers)
	require.JSONEq(t, `{"event_id":"`+answer["event_id"].(string)+`","order_id":"`+answer["order_id"].(string)+`","customer_id":"`+customer+
		`","total_amount":"9007199254740993.01","currency":"USD","event_type":"order.confirmed.v1","occurred_at":"2026-01-02T15:04:05.123Z"}`, string(r.Value))

	status, _ = post(t, url, `{"customer_id":"`+customer+`","total_amount":"5"}`, "traceparent", "nonsense")
	require.Equal(t, http.StatusCreated, status)
	require.NotContains(t, string(b.records[1].Value), `"currency"`, "billing's default decides")
	require.Regexp(t, traceparentForm, string(b.records[1].Headers[0].Value))
}

func TestAnIdempotencyKeyKeepsTheOrder(t *testing.T) {
	b := &broker{}
	url, _ := open(t, Config{}, b)
	body := `{"customer_id":"` + customer + `","total_amount":"5.00"}`
	_, first := post(t, url, body, "Idempotency-Key", "k1")
	_, again := post(t, url, body, "Idempotency-Key", "k1")
	_, other := post(t, url, body, "Idempotency-Key", "k2")
	_, none := post(t, url, body)
	require.Equal(t, first, again)
	require.NotEqual(t, first["order_id"], other["order_id"])
	require.NotEqual(t, first["order_id"], none["order_id"])
	require.NotEqual(t, first["order_id"], first["event_id"])
}

func TestWithoutAnAcknowledgementNothingIsPromised(t *testing.T) {
	body := `{"customer_id":"` + customer + `","total_amount":"5.00"}`
	b := &broker{err: errors.New("not enough replicas at kafka-3.internal")}
	url, _ := open(t, Config{}, b)
	status, answer := post(t, url, body)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NotContains(t, answer["detail"], "kafka-3", "what failed is for the log")

	silent := &broker{release: make(chan struct{})}
	url, _ = open(t, Config{PublishTimeout: 20 * time.Millisecond}, silent)
	status, _ = post(t, url, body)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Empty(t, silent.records)
}

func TestBadRequestsNameTheField(t *testing.T) {
	b := &broker{}
	url, _ := open(t, Config{}, b)
	good := `"customer_id":"` + customer + `"`
	for _, c := range []struct {
		body   string
		status int
		field  string
	}{
		{``, 400, ""},
		{`{`, 400, ""},
		{`[]`, 400, ""},
		{`{` + good + `,"total_amount":"1.00"} {}`, 400, ""},
		{`{` + good + `,"total_amount":"1.00","amount":"2.00"}`, 400, ""},
		{`{` + good + `,"total_amount":"` + strings.Repeat("1", maxBody) + `"}`, 413, ""},
		{`{"total_amount":"1.00"}`, 422, "customer_id"},
		{`{"customer_id":null,"total_amount":"1.00"}`, 422, "customer_id"},
		{`{"customer_id":7,"total_amount":"1.00"}`, 422, "customer_id"},
		{`{"customer_id":"{` + customer + `}","total_amount":"1.00"}`, 422, "customer_id"},
		{`{"customer_id":"00000000-0000-0000-0000-000000000000","total_amount":"1.00"}`, 422, "customer_id"},
		{`{` + good + `}`, 422, "total_amount"},
		{`{` + good + `,"total_amount":null}`, 422, "total_amount"},
		{`{` + good + `,"total_amount":true}`, 422, "total_amount"},
		{`{` + good + `,"total_amount":0}`, 422, "total_amount"},
		{`{` + good + `,"total_amount":-1}`, 422, "total_amount"},
		{`{` + good + `,"total_amount":1e3}`, 422, "total_amount"},
		{`{` + good + `,"total_amount":"1.001"}`, 422, "total_amount"},
		{`{` + good + `,"total_amount":"500.5","currency":"JPY"}`, 422, "total_amount"},
		{`{` + good + `,"total_amount":"1.00","currency":"XYZ"}`, 422, "currency"},
		{`{` + good + `,"total_amount":"1.00","currency":""}`, 422, "currency"},
	} {
		status, answer := post(t, url, c.body)
		require.Equal(t, c.status, status, "%.80s", c.body)
		if c.field != "" {
			require.Len(t, answer["errors"], 1, "%.80s", c.body)
			require.Equal(t, c.field, answer["errors"].([]any)[0].(map[string]any)["field"], "%.80s", c.body)
		}
	}
	status, answer := post(t, url, `{"total_amount":"x","currency":"YYY"}`)
	require.Equal(t, 422, status)
	require.Len(t, answer["errors"], 2, "all at once; an amount of an unknown currency cannot be judged")
	require.Empty(t, b.records)
}

func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	b := &broker{arrived: make(chan struct{}), release: make(chan struct{})}
	url, stop := open(t, Config{}, b)
	stopped := make(chan error, 1)
	go func() {
		<-b.arrived
		go func() { stopped <- stop() }()
		close(b.release)
	}()
	status, _ := post(t, url, `{"customer_id":"`+customer+`","total_amount":"5.00"}`)
	require.Equal(t, http.StatusCreated, status)
	require.NoError(t, <-stopped)
	require.Len(t, b.records, 1)
}

func TestHealth(t *testing.T) {
	url, _ := open(t, Config{}, &broker{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/healthz", nil)
	require.NoError(t, err)
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.JSONEq(t, `{"status":"ok"}`, string(body))
}

func TestSettingsAreChecked(t *testing.T) {
	_, err := New(Config{}, &broker{})
	require.ErrorContains(t, err, "Topic")
	_, err = New(Config{Topic: "t", Currency: "XYZ"}, &broker{})
	require.ErrorContains(t, err, "Currency")
	_, err = New(Config{Topic: "t"}, nil)
	require.ErrorContains(t, err, "Publisher")
	_, err = New(Config{Topic: "t", PublishTimeout: -1}, &broker{})
	require.ErrorContains(t, err, "PublishTimeout")
}
