package main

import (
	"bytes"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// setRequired sets what every command needs, and clears what the machine may have.
func setRequired(t *testing.T) {
	t.Helper()
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "BILLING_") {
			t.Setenv(name, "") // restores it after the test
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("BILLING_KAFKA_BROKERS", "localhost:9092")
	t.Setenv("BILLING_DATABASE_URL", "postgres://billing:secret-one@localhost/billing")
	t.Setenv("BILLING_PROVIDER_URL", "https://provider.example")
}

// The names and defaults are part of the interface.
func TestDefaults(t *testing.T) {
	setRequired(t)
	c, err := loadConfig(needsAll)
	require.NoError(t, err)
	require.Equal(t, Config{
		KafkaBrokers: "localhost:9092", KafkaSecurityProtocol: "PLAINTEXT", Topic: "orders.confirmed", Group: "billing-order-confirmed",
		RetryDelays: []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}, LongestOutage: 72 * time.Hour, Concurrency: 256,
		DatabaseURL: "postgres://billing:secret-one@localhost/billing", DatabaseMaxConns: 8, ProviderURL: "https://provider.example",
		ProviderTimeout: 10 * time.Second, ProviderKeyTTL: 24 * time.Hour, ProviderAccount: "default", ProviderMaxProcessing: time.Minute,
		Environment: "default", Currency: "EUR", FaultPolicy: "hold", Lease: 15 * time.Second, KeyMargin: 4 * time.Hour, LeaveAfter: 2 * time.Minute, StopTimeout: 10 * time.Second,
		ReplayCeiling: 5, FloodRatio: 0.5, FloodCount: 50, HTTPAddr: ":8080", LogLevel: "info", LogFormat: "json",
	}, c)
}

func TestEveryVariableIsRead(t *testing.T) {
	setRequired(t)
	values := map[string]string{
		"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "p", "KAFKA_SSL_CA": caFile(t),
		"KAFKA_EXTRA": "client.rack=a", "TOPIC": "t", "GROUP": "g", "RETRY_DELAYS": "1s,2s", "CONCURRENCY": "7", "DATABASE_MAX_CONNS": "9", "PROVIDER_TOKEN": "x",
		"PROVIDER_TIMEOUT": "1s", "PROVIDER_KEY_TTL": "2h", "PROVIDER_ACCOUNT": "a", "PROVIDER_MAX_PROCESSING": "3s", "ENVIRONMENT": "e", "CURRENCY": "JPY",
		"FAULT_POLICY": "document", "LEASE": "4s", "KEY_MARGIN": "1h", "MAX_AGE": "72h", "LEAVE_AFTER": "5m", "STOP_TIMEOUT": "20s", "REPLAY_TARGETS": "t", "REPLAY_CEILING": "2", "FLOOD_RATIO": "0.9", "FLOOD_COUNT": "7",
		"HTTP_ADDR": ":1", "PRIVATE_ADDR": ":2", "ADMIN_TOKENS": "a:viewer:" + strings.Repeat("5f0c7b9a", 4), "LOG_LEVEL": "debug", "LOG_FORMAT": "text", "ADMIN_SHOW_HEADERS": "shop",
	}
	for name, value := range values {
		t.Setenv("BILLING_"+name, value)
	}
	got, err := loadConfig(needsAll)
	require.NoError(t, err)
	setRequired(t)
	defaults, err := loadConfig(needsAll)
	require.NoError(t, err)
	var text, before bytes.Buffer
	printConfig(&text, got)
	printConfig(&before, defaults)
	old := strings.Split(before.String(), "\n")
	for i, line := range strings.Split(text.String(), "\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "BILLING_"), " ")
		if _, changed := values[name]; changed {
			require.NotEqual(t, old[i], line, "%s has no effect", name)
		}
	}
}

// caFile is a certificate to trust, as httptest's servers have it.
func caFile(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// All problems come at once, each with the variable's name and an example.
func TestAllProblemsAtOnce(t *testing.T) {
	setRequired(t)
	for name, value := range map[string]string{
		"PROVIDER_URL": "provider.example", "KAFKA_EXTRA": "acks=1", "KAFKA_SECURITY_PROTOCOL": "TLS", "FAULT_POLICY": "pray", "CURRENCY": "EURO",
		"LOG_LEVEL": "loud", "LOG_FORMAT": "xml", "CONCURRENCY": "0", "DATABASE_MAX_CONNS": "1", "LEASE": "11s", "KEY_MARGIN": "1s", "PROVIDER_KEY_TTL": "500ms",
		"PROVIDER_MAX_PROCESSING": "0s", "STOP_TIMEOUT": "1s", "LEAVE_AFTER": "0s", "MAX_AGE": "-1s", "REPLAY_CEILING": "0", "FLOOD_RATIO": "2", "FLOOD_COUNT": "-1", "RETRY_DELAYS": "30s,5s",
	} {
		t.Setenv("BILLING_"+name, value)
	}
	_, err := loadConfig(needsAll)
	usage, ok := err.(*usageError) //nolint:errorlint // it is the one that main looks for
	require.True(t, ok)
	require.Len(t, usage.problems, 20, err)
	for _, p := range usage.problems {
		require.Regexp(t, `^BILLING_[A-Z_]+ .+ \(example: .+\)$`, p)
	}
	require.Contains(t, err.Error(), "acks cannot be set: a record counts only when all in-sync replicas have it")
	require.Equal(t, exitUsage, exitCode(err))
}

func TestUnreadableValuesAreAllNamed(t *testing.T) {
	setRequired(t)
	t.Setenv("BILLING_CONCURRENCY", "many")
	t.Setenv("BILLING_LEASE", "15")
	t.Setenv("BILLING_MAX_AGE", "never")
	_, err := loadConfig(needsAll)
	for _, name := range []string{`BILLING_CONCURRENCY "many" cannot be read as a whole number`, `BILLING_LEASE "15" cannot be read as a duration: a number with h, m, s or ms`,
		`BILLING_MAX_AGE "never" cannot`} {
		require.ErrorContains(t, err, name)
	}
}

func TestMissingSettingsAreNamed(t *testing.T) {
	setRequired(t)
	for _, name := range []string{"KAFKA_BROKERS", "DATABASE_URL", "PROVIDER_URL"} {
		require.NoError(t, os.Unsetenv("BILLING_"+name))
	}
	_, err := loadConfig(needsAll)
	for _, name := range []string{"KAFKA_BROKERS", "DATABASE_URL", "PROVIDER_URL"} {
		require.ErrorContains(t, err, "BILLING_"+name+" is required")
	}
	_, err = loadConfig(needsDatabase)
	require.NotContains(t, err.Error(), "KAFKA", "migrate needs no broker")
}

func TestSettingsFromFiles(t *testing.T) {
	setRequired(t)
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("from-a-file\n"), 0o600))
	t.Setenv("BILLING_PROVIDER_TOKEN_FILE", path)
	c, err := loadConfig(needsAll)
	require.NoError(t, err)
	require.Equal(t, "from-a-file", c.ProviderToken)

	t.Setenv("BILLING_PROVIDER_TOKEN", "both")
	_, err = loadConfig(needsAll)
	require.ErrorContains(t, err, "give one")
	t.Setenv("BILLING_PROVIDER_TOKEN", "")
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte(" \n"), 0o600))
	for path, want := range map[string]string{
		path + "-missing":   "BILLING_PROVIDER_TOKEN cannot be read from BILLING_PROVIDER_TOKEN_FILE",
		filepath.Dir(empty): "is a directory",
		empty:               empty + " is empty",
		"/dev/zero":         "is larger than",
	} {
		t.Setenv("BILLING_PROVIDER_TOKEN_FILE", path)
		_, err = loadConfig(needsAll)
		require.ErrorContains(t, err, want)
	}
}

// Somebody puts the secret itself where the path of its file belongs (jackc/pgx#1428).
func TestASecretInPlaceOfItsFileIsNotShown(t *testing.T) {
	setRequired(t)
	for name, secret := range map[string]string{
		"BILLING_DATABASE_URL_FILE": "postgres://u:s3cret@h/db", "BILLING_PROVIDER_TOKEN_FILE": "s3cret", "BILLING_ADMIN_TOKENS_FILE": "al:operator:s3cret",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(strings.TrimSuffix(name, "_FILE"), "")
			t.Setenv(name, secret)
			_, err := loadConfig(needsAll)
			require.ErrorContains(t, err, name)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}

func TestSecretsAreMasked(t *testing.T) {
	setRequired(t)
	for _, name := range []string{"PROVIDER_TOKEN", "KAFKA_SASL_PASSWORD"} {
		t.Setenv("BILLING_"+name, "secret-two")
	}
	t.Setenv("BILLING_ADMIN_TOKENS", "a:viewer:secret-"+strings.Repeat("5f0c7b9a", 4))
	c, err := loadConfig(needsAll)
	require.NoError(t, err)
	var out bytes.Buffer
	printConfig(&out, c)
	require.NotContains(t, out.String(), "secret-")
	require.Contains(t, out.String(), "postgres://billing:xxxxx@localhost/billing")
}

// A Kubernetes Service named billing injects such variables: a warning, never an error.
func TestUnknownVariables(t *testing.T) {
	warnings := unknownVariables([]string{"BILLING_PORT=tcp://10.0.0.1:80", "BILLING_CONCURENCY=1", "BILLING_DATABASE_URL_FILE=x", "BILLING_ADMIN_TOKEN=x", "PATH=/bin"})
	require.Len(t, warnings, 2)
	require.Equal(t, "BILLING_CONCURENCY is not a setting; the nearest is BILLING_CONCURRENCY", warnings[0])
	require.Contains(t, warnings[1], "BILLING_PORT is not a setting")
}
