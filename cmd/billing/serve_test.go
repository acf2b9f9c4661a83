package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/testkit"
)

// startService runs serve against servers of the test's own and returns the address of its HTTP server. Settings look like
// "BILLING_LOG_LEVEL=debug".
func startService(t *testing.T, settings ...string) (string, *testkit.Cluster, Config) {
	t.Helper()
	setRequired(t)
	kafka := testkit.Kafka(t)
	sim, err := providersim.New(providersim.Config{})
	require.NoError(t, err)
	provider := httptest.NewServer(sim.Handler())
	t.Cleanup(provider.Close)
	t.Setenv("BILLING_KAFKA_BROKERS", kafka.Brokers)
	t.Setenv("BILLING_DATABASE_URL", testkit.Postgres(t).URL)
	t.Setenv("BILLING_PROVIDER_URL", provider.URL)
	t.Setenv("BILLING_TOPIC", kafka.Name("orders.confirmed"))
	t.Setenv("BILLING_GROUP", kafka.Name("billing"))
	t.Setenv("BILLING_HTTP_ADDR", "127.0.0.1:0")
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	cfg, err := loadConfig(needsAll)
	require.NoError(t, err)
	require.NoError(t, createDemoTopics(t.Context(), cfg))
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, cfg, slog.New(slog.DiscardHandler), serveOptions{ready: func(addr string) { ready <- addr }})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, testkit.Receive(t, ended, "the service to stop"))
	})
	return testkit.Receive(t, ready, "the service to be ready"), kafka, cfg
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

// The names of the metrics and of their labels are part of the interface.
func TestMetricNames(t *testing.T) {
	addr, kafka, cfg := startService(t)
	kafka.Produce(
		&kgo.Record{Topic: cfg.Topic, Value: []byte(`{"event_id":"0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a01","order_id":"0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a02","customer_id":"0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a03","total_amount":"1.00"}`)},
		&kgo.Record{Topic: cfg.Topic, Value: []byte("no order")})
	names := []string{
		`billing_messages_total\{outcome="charged",topic="[^"]*orders.confirmed"\} 1`,
		`billing_messages_total\{outcome="dead",topic="[^"]*orders.confirmed"\} 1`,
		`billing_charges_total\{outcome="succeeded"\} 1`,
		`billing_message_duration_seconds_count\{topic=`,
		`billing_provider_request_duration_seconds_count\{code="201"\} 1`,
		`billing_consumer_lag\{partition="0",topic=`,
		`billing_inflight\{topic=`,
		`billing_partition_paused\{partition="0",reason="",topic=`,
		`billing_partition_stalled\{partition="0",topic="[^"]*"\} 0`,
		`billing_hold\{reason="provider_down"\} 0`,
		`billing_out_of_groups 0`,
		`billing_breaker_state\{state="closed"\} 1`,
		`billing_concurrency_limit 256`,
		`billing_concurrency_limited\{reason="provider_rate_limited"\} 0`,
		`billing_charge_rate_limit 0`,
		`billing_dlq_unresolved\{reason="not_json",topic=`,
		`billing_dlq_oldest_seconds\{topic=`,
		`billing_outbox_unpublished `,
		`billing_outbox_oldest_seconds `,
		`billing_unknown_outcomes 0`,
		`billing_unknown_oldest_seconds 0`,
		`billing_conservation_difference\{topic="[^"]*orders.confirmed"\} 0`,
		`billing_conservation_age_seconds\{topic="[^"]*orders.confirmed"\} `,
		`billing_build_info\{commit="unknown",version="dev"\} 1`,
	}
	var missing []string
	testkit.Eventually(t, func() bool {
		_, text := get(t, "http://"+addr+"/metrics")
		missing = nil
		for _, n := range names {
			if !regexp.MustCompile(`(?m)^` + n).MatchString(text) {
				missing = append(missing, n)
			}
		}
		return len(missing) == 0
	}, "the metrics")
	require.Empty(t, missing)
}

func TestReadyAndClosedByDefault(t *testing.T) {
	addr, _, _ := startService(t)
	testkit.Eventually(t, func() bool { status, _ := get(t, "http://"+addr+"/readyz"); return status == http.StatusOK }, "readiness")
	status, _ := get(t, "http://"+addr+"/healthz")
	require.Equal(t, http.StatusOK, status)
	status, _ = get(t, "http://"+addr+"/admin/dlq")
	require.Equal(t, http.StatusNotFound, status, "no tokens, no admin surface")
}

func TestMetricsMoveToThePrivateAddress(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	private := listener.Addr().String()
	require.NoError(t, listener.Close()) // free again
	addr, _, _ := startService(t, "BILLING_PRIVATE_ADDR="+private)
	status, _ := get(t, "http://"+addr+"/metrics")
	require.Equal(t, http.StatusNotFound, status)
	for _, path := range []string{"/metrics", "/debug/pprof/heap"} {
		status, _ = get(t, "http://"+private+path)
		require.Equal(t, http.StatusOK, status, path)
	}
}

func TestTheDemosTokenIsRefused(t *testing.T) {
	setRequired(t)
	t.Setenv("BILLING_ADMIN_TOKENS", "demo:operator:"+demoToken)
	root := newRootCommand()
	root.SetArgs([]string{"serve"})
	err := root.ExecuteContext(t.Context())
	require.ErrorContains(t, err, "BILLING_ADMIN_TOKENS")
	require.Equal(t, exitUsage, exitCode(err))
}

// The commands are part of the interface; each tells how it is used.
func TestCommands(t *testing.T) {
	for _, args := range []string{
		"serve", "demo", "demo provider", "demo shop", "migrate up", "migrate status", "topics plan", "topics apply", "topics accept", "topics drain", "config", "config unpin",
		"dlq list", "dlq show", "dlq replay", "reconcile", "balance", "version",
	} {
		_, rest, err := newRootCommand().Find(strings.Fields(args))
		require.NoError(t, err, args)
		require.Empty(t, rest, args)
	}
	requireExplained(t, newRootCommand())
	for _, args := range []string{"pay", "serve now", "topics plan --partitions=0", "topics drain", "serve --fast", "reconcile --from=yesterday", "reconcile --unknown-only --range-only", "balance -o xml", "config unpin"} {
		root := newRootCommand()
		root.SetArgs(strings.Fields(args))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		setRequired(t)
		require.Equal(t, exitUsage, exitCode(root.ExecuteContext(t.Context())), args)
	}
}

func requireExplained(t *testing.T, cmd *cobra.Command) {
	t.Helper()
	require.NotEmpty(t, cmd.Example, "%s has no example", cmd.CommandPath())
	require.NotEmpty(t, cmd.Short, cmd.CommandPath())
	for _, sub := range cmd.Commands() {
		requireExplained(t, sub)
	}
}
