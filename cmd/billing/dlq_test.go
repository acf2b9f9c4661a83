package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

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

const dlqTestToken = "operator-token-0123456"

// hostile clears the screen, sets the clipboard, hides text and turns it around, starts lines and columns of its own.
const hostile = "a\x1b[2J\x1b]52;c;cm0gLXJm\a\u009b31m\u202ebackwards\r\nDIED\t\x7f\u200b\x00 \xff}\"z"

// dlqServer is the admin API of a service with two dead letters, of which one is declined.
func dlqServer(t *testing.T) (*testkit.Cluster, retry.Ladder) {
	t.Helper()
	kafka, db, log := testkit.Kafka(t), testkit.Postgres(t), slog.New(slog.DiscardHandler)
	ladder := retry.NewLadder(kafka.Name("orders"), kafka.Name("billing"), []time.Duration{5 * time.Second})
	kafka.CreateTopics(1, ladder.Topics()...)
	for _, class := range []string{"exhausted", "declined"} {
		kafka.Produce(&kgo.Record{Topic: ladder.DeadLetters(), Key: []byte(hostile), Value: []byte("\x1b[2Jvalue"), Headers: []kgo.RecordHeader{
			{Key: retry.HeaderErrorClass, Value: []byte(class)}, {Key: retry.HeaderErrorReason, Value: []byte("provider_5xx")},
			{Key: retry.HeaderError, Value: []byte(hostile)}, {Key: hostile, Value: []byte(hostile)}, {Key: retry.HeaderOriginalTopic, Value: []byte(hostile)}}})
	}
	reader, err := kafkaclient.NewReader(kafkaclient.Config{Brokers: kafka.Brokers}, log)
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	producer, err := kafkaclient.NewProducer(kafkaclient.Config{Brokers: kafka.Brokers}, log)
	require.NoError(t, err)
	t.Cleanup(func() { producer.Close(time.Second) })
	ingester, err := deadletter.NewIngester(deadletter.IngesterConfig{Topic: ladder.DeadLetters(), Main: ladder.Main(), Log: log}, db.Pool, reader, reader,
		func([]byte) (uuid.UUID, billing.Money) { return uuid.New(), billing.Money{Minor: 1, Currency: "EUR"} })
	require.NoError(t, err)
	records := deadletter.NewRecords(db.Pool, reader, reader)
	replayer, err := deadletter.NewReplayer(deadletter.ReplayerConfig{Ladder: ladder, Ceiling: 5, Environment: "test", Clock: time.Now, Log: log,
		Held: func() failure.Reason { return "" }}, db.Pool, reader, records, producer)
	require.NoError(t, err)
	tokens, err := admin.ParseTokens("oscar:operator:" + dlqTestToken)
	require.NoError(t, err)
	list := deadletter.NewList(db.Pool)
	server, err := admin.New(admin.Config{Addr: "127.0.0.1:0", DeadLetters: ladder.DeadLetters(), Tokens: tokens},
		admin.Deps{Pool: db.Pool, Letters: list, Records: records, Replayer: replayer, Metrics: prometheus.NewRegistry(), Clock: time.Now, Log: log})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- ingester.Run(ctx) }()
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, errors.Join(testkit.Receive(t, ended, "stop"), testkit.Receive(t, ended, "stop")))
	})
	testkit.Eventually(t, func() bool {
		found, err := list.Find(t.Context(), ladder.DeadLetters(), deadletter.Filter{Limit: 9})
		return err == nil && len(found) == 2
	}, "two letters listed")
	t.Setenv("BILLING_ADMIN_URL", "http://"+server.Addr())
	t.Setenv("BILLING_ADMIN_TOKEN", dlqTestToken)
	return kafka, ladder
}

// dlq runs the command as a person would who answers what it asks.
func dlq(t *testing.T, answer string, args ...string) (out, asked string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := newDLQCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(answer))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestDLQListAndShow(t *testing.T) {
	_, ladder := dlqServer(t)
	out, _, err := dlq(t, "", "list")
	require.NoError(t, err)
	require.Contains(t, out, "0/1      open   declined   provider_5xx")
	require.Contains(t, out, "2 of "+ladder.DeadLetters())

	out, _, err = dlq(t, "", "list", "--class", "declined", "--limit", "1", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"offset": 1`)
	require.NotContains(t, out, `"offset": 0`)

	out, _, err = dlq(t, "", "show", "0/0")
	require.NoError(t, err)
	require.Contains(t, out, ".[2Jvalue", "a payload cannot steer the terminal")
	require.Contains(t, out, "header x-error-class")
	require.Contains(t, out, "0.01 EUR")

	asJSON, _, err := dlq(t, "", "show", "0/0", "-o", "json")
	require.NoError(t, err)
	require.True(t, json.Valid([]byte(asJSON)))
	require.Contains(t, asJSON, `\u009b31m\u202ebackwards`, "escaped, not lost")
	listed, _, err := dlq(t, "", "list")
	require.NoError(t, err)
	for _, text := range []string{listed, out, asJSON} {
		require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }), "%q", text)
	}
	require.NotContains(t, out, "\nDIED", "a line of its own")

	_, _, err = dlq(t, "", "list", "--state", "closed")
	require.ErrorContains(t, err, "want open, replaying")
	_, _, err = dlq(t, "", "show", "0/7")
	require.ErrorContains(t, err, "no such dead letter")
}

func TestDLQReplayCountsAndAsks(t *testing.T) {
	kafka, ladder := dlqServer(t)
	tier := ladder.Tiers()[0].Topic
	for _, answer := range []string{"n\n", ""} {
		out, asked, err := dlq(t, answer, "replay", "--all", "--reason", "provider is back")
		require.ErrorIs(t, err, errNotConfirmed)
		require.Equal(t, "would replay 1 to "+tier+", skip 1 (declined)\ngo on? [y/N] ", asked)
		require.Empty(t, out)
	}
	require.Zero(t, kafka.Count(tier))
	out, _, err := dlq(t, "", "replay", "0/0", "--reason", "look", "--dry-run", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"dry_run": true`)

	out, _, err = dlq(t, "y\n", "replay", "0/0", "0/1", "--reason", "provider is back")
	require.NoError(t, err)
	require.Equal(t, "replayed 1 to "+tier+", skip 1 (declined)\n", out)
	require.Equal(t, 1, kafka.Count(tier))

	_, _, err = dlq(t, "", "replay", "--all", "--reason", "x", "--yes", "--target", "elsewhere")
	require.ErrorContains(t, err, "allowed: "+tier)
}

func TestDLQWrongUsage(t *testing.T) {
	t.Setenv("BILLING_ADMIN_TOKEN", "")
	t.Setenv("BILLING_ADMIN_TOKEN_FILE", "")
	for _, args := range [][]string{
		{"list"}, // no token
		{"list", "--token", "x", "--url", "localhost"},
		{"show", "--token", "x", "0-1"},
		{"show", "--token", "x", "0/-1"},
		{"replay", "--token", "x", "0/1"},                                   // no reason
		{"replay", "--token", "x", "--reason", "x"},                         // of what?
		{"replay", "--token", "x", "--reason", "x", "--all", "0/1"},         // all or one?
		{"replay", "--token", "x", "--reason", "x", "--all", "--max", "-1"}, // nothing
	} {
		_, _, err := dlq(t, "", args...)
		require.ErrorAs(t, err, new(*usageError), "%v", args)
	}
	_, _, err := dlq(t, "", "list", "--token", "x", "--url", "http://127.0.0.1:1")
	require.ErrorContains(t, err, "is the service running there?")
	require.NotErrorAs(t, err, new(*usageError))
}

func TestDLQNeedsAYesWhenNobodyIsThere(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "no-terminal"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	cmd := newDLQCommand()
	cmd.SetArgs([]string{"replay", "--all", "--reason", "x", "--token", "x"})
	cmd.SetIn(file)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	require.ErrorContains(t, cmd.Execute(), "--yes")
}
