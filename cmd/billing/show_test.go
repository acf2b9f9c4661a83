package main

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/testkit"
)

// execute runs a command and returns what it printed and its exit code.
func execute(t *testing.T, command ...string) (out string, code int) {
	t.Helper()
	var text bytes.Buffer
	root := newRootCommand()
	root.SetArgs(command)
	root.SetOut(&text)
	root.SetErr(&text)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		text.WriteString(err.Error())
	}
	return text.String(), exitCode(err)
}

// setServers sets what the servers of one test need; the provider asks for a token.
func setServers(t *testing.T) *testkit.Database {
	t.Helper()
	setRequired(t)
	kafka, db := testkit.Kafka(t), testkit.Postgres(t)
	sim, err := providersim.New(providersim.Config{Token: "right"})
	require.NoError(t, err)
	provider := httptest.NewServer(sim.Handler())
	t.Cleanup(provider.Close)
	for name, value := range map[string]string{
		"KAFKA_BROKERS": kafka.Brokers, "DATABASE_URL": db.URL, "PROVIDER_URL": provider.URL, "PROVIDER_TOKEN": "right",
		"TOPIC": kafka.Name("orders"), "GROUP": kafka.Name("billing"), "HTTP_ADDR": "127.0.0.1:0",
	} {
		t.Setenv("BILLING_"+name, value)
	}
	return db
}

// The check reaches what the settings name, says of each what is wrong, and leaves everything as it was.
func TestConfigCheckNamesWhatIsWrong(t *testing.T) {
	db := setServers(t)
	count := func() (n int) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM installation`).Scan(&n))
		return n
	}
	out, code := execute(t, "config", "--check")
	require.Equal(t, exitDifferences, code)
	require.Contains(t, out, "brokers and topics: not as wanted")
	require.Contains(t, out, "database: ok")
	require.Contains(t, out, "provider: ok")

	cfg, err := loadConfig(needsAll)
	require.NoError(t, err)
	require.NoError(t, createDemoTopics(t.Context(), cfg))
	t.Setenv("BILLING_CONCURENCY", "7")
	out, code = execute(t, "config", "--check")
	require.Zero(t, code, out)
	require.Contains(t, out, "warning: BILLING_CONCURENCY is not a setting; the nearest is BILLING_CONCURRENCY")
	require.Zero(t, count(), "looking pins nothing")

	_, err = db.Pool.Exec(t.Context(), `INSERT INTO installation (environment, provider_account, consumer_group) VALUES ('staging', 'default', $1)`, cfg.Group)
	require.NoError(t, err)
	t.Setenv("BILLING_PROVIDER_TOKEN", "wrong")
	out, code = execute(t, "config", "--check")
	require.Equal(t, exitDifferences, code)
	require.Contains(t, out, `database: BILLING_ENVIRONMENT is "default", but this database was first used with "staging"`)
	require.Contains(t, out, "provider: ")
	require.Contains(t, out, "401")
	require.Contains(t, out, "brokers and topics: ok")

	_, code = execute(t, "config", "unpin")
	require.Equal(t, exitUsage, code, "a reason is asked for")
	out, code = execute(t, "config", "unpin", "--reason", "misspelt")
	require.Zero(t, code, out)
	require.Contains(t, out, "forgotten: {")
	require.Contains(t, out, `"environment": "staging"`)
	require.Zero(t, count())
	var reason, target string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT reason, target::text FROM audit_log WHERE action = 'config.unpin'`).Scan(&reason, &target))
	require.Equal(t, "misspelt", reason)
	require.Contains(t, target, "staging")
	out, code = execute(t, "config", "unpin", "--reason", "again")
	require.Zero(t, code)
	require.Contains(t, out, "nothing is pinned")
}

// One wrong setting of any kind, and nothing is written: what is pinned by mistake stays.
func TestWrongSettingsPinNothing(t *testing.T) {
	db := setServers(t)
	cfg, err := loadConfig(needsAll)
	require.NoError(t, err)
	require.NoError(t, createDemoTopics(t.Context(), cfg))
	for _, wrong := range []string{
		"BILLING_GROUP=", "BILLING_ENVIRONMENT=", "BILLING_PROVIDER_ACCOUNT=", "BILLING_HTTP_ADDR=", "BILLING_TOPIC=", "BILLING_REPLAY_TARGETS=elsewhere",
		"BILLING_KAFKA_EXTRA=no.such=1", "BILLING_PROVIDER_URL=http://u:p@127.0.0.1:1", "BILLING_PRIVATE_ADDR=1", "BILLING_ADMIN_TOKENS=x",
	} {
		t.Run(wrong, func(t *testing.T) {
			name, value, _ := strings.Cut(wrong, "=")
			t.Setenv(name, value)
			out, code := execute(t, "serve")
			require.Equal(t, exitUsage, code, out)
			require.Contains(t, out, name+" ")
		})
	}
	var pinned int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM installation`).Scan(&pinned))
	require.Zero(t, pinned)
}
