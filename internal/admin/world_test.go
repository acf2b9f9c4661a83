package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/billing"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
	"example.com/billing/internal/testkit"
)

const tokens = "vera:viewer:viewer-token-0123456789,oscar:operator:operator-token-0123456,anna:approver:approver-token-0123456"

// world is a server at a real address over a real broker and a real database.
type world struct {
	t      *testing.T
	kafka  *testkit.Cluster
	db     *testkit.Database
	ladder retry.Ladder
	deps   admin.Deps
	cfg    admin.Config
	log    *logText
	url    string
	held   atomic.Value // failure.Reason of the line; empty: it runs
}

// newWorld lists dead letters, too. It serves when serve is called.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, kafka: testkit.Kafka(t), db: testkit.Postgres(t), log: &logText{}}
	w.held.Store(failure.Reason(""))
	log := slog.New(slog.NewTextHandler(w.log, nil))
	w.ladder = retry.NewLadder(w.kafka.Name("orders"), w.kafka.Name("billing"), []time.Duration{5 * time.Second})
	w.kafka.CreateTopics(1, w.ladder.Topics()...)
	cfg := kafkaclient.Config{Brokers: w.kafka.Brokers}
	reader, err := kafkaclient.NewReader(cfg, log)
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	producer, err := kafkaclient.NewProducer(cfg, log)
	require.NoError(t, err)
	t.Cleanup(func() { producer.Close(time.Second) })
	records := deadletter.NewRecords(w.db.Pool, reader, reader)
	replayer, err := deadletter.NewReplayer(deadletter.ReplayerConfig{
		Ladder: w.ladder, Ceiling: 5, Environment: "test", Clock: time.Now, Log: log, ListWait: testkit.Patience,
		Held: func() failure.Reason { return w.held.Load().(failure.Reason) },
	}, w.db.Pool, reader, records, producer)
	require.NoError(t, err)
	ingester, err := deadletter.NewIngester(deadletter.IngesterConfig{Topic: w.ladder.DeadLetters(), Main: w.ladder.Main(), Log: log}, w.db.Pool, reader, reader, decode)
	require.NoError(t, err)
	w.run(ingester.Run)
	parsed, err := admin.ParseTokens(tokens)
	require.NoError(t, err)
	w.cfg = admin.Config{Addr: "127.0.0.1:0", DeadLetters: w.ladder.DeadLetters(), Tokens: parsed}
	w.deps = admin.Deps{
		Pool: w.db.Pool, Letters: deadletter.NewList(w.db.Pool), Records: records, Replayer: replayer, Metrics: prometheus.NewRegistry(), Clock: time.Now, Log: log,
	}
	return w
}

// run runs until the test ends.
func (w *world) run(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		require.NoError(w.t, testkit.Receive(w.t, done, "it stops"))
	})
}

func (w *world) serve() *world {
	w.t.Helper()
	s, err := admin.New(w.cfg, w.deps)
	require.NoError(w.t, err)
	w.url = "http://" + s.Addr()
	w.run(s.Run)
	return w
}

var httpClient = &http.Client{Timeout: testkit.Patience}

// response is an answer, read whole.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (r response) json(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(r.body, &m), "%s", r.body)
	return m
}

// call asks as the holder of the token, and holds the answer against the OpenAPI description. Pairs of headers may follow.
func (w *world) call(token, method, path, body string, headers ...string) response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	require.NoError(w.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := httpClient.Do(req)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	r := response{res.StatusCode, res.Header, text}
	requireDescribed(w.t, method, path, r)
	return r
}

func (w *world) get(path string) response {
	w.t.Helper()
	return w.call(viewer, http.MethodGet, path, "")
}

const (
	viewer   = "viewer-token-0123456789"
	operator = "operator-token-0123456"
)

// die puts dead letters on the topic and waits until they are listed. Pairs of headers replace the usual ones.
func (w *world) die(order uuid.UUID, originOffset int64, headers ...string) *kgo.Record {
	w.t.Helper()
	set := map[string]string{
		retry.HeaderAttempt: "4", retry.HeaderOriginalTopic: w.ladder.Main(), retry.HeaderOriginalPartition: "0",
		retry.HeaderOriginalOffset: strconv.FormatInt(originOffset, 10), retry.HeaderError: "provider_5xx: 503", retry.HeaderErrorClass: "exhausted",
		retry.HeaderErrorReason: "provider_5xx",
	}
	for i := 0; i < len(headers); i += 2 {
		set[headers[i]] = headers[i+1]
	}
	r := &kgo.Record{Topic: w.ladder.DeadLetters(), Key: []byte(order.String()), Value: []byte(`{"order_id":"` + order.String() + `"}`)}
	for k, v := range set {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	w.kafka.Produce(r)
	testkit.Eventually(w.t, func() bool {
		_, err := w.deps.Letters.At(w.t.Context(), r.Topic, deadletter.Place{Partition: r.Partition, Offset: r.Offset})
		return err == nil
	}, "the letter is listed")
	return r
}

func (w *world) messages() string { return "/admin/dlq/" + w.ladder.DeadLetters() + "/messages" }

func (w *world) replayPath() string { return "/admin/dlq/" + w.ladder.DeadLetters() + "/replay" }

// decode stands for the decoder of package orders.
func decode(value []byte) (uuid.UUID, billing.Money) {
	var v struct {
		Order uuid.UUID `json:"order_id"`
	}
	_ = json.Unmarshal(value, &v) // no order then
	return v.Order, billing.Money{Minor: 14990, Currency: "EUR"}
}

// logText keeps what was logged.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
