package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A stray CURRENCY or DATABASE_URL of another program must not change what is charged, or where.
func TestOnlyOurPrefixIsASetting(t *testing.T) {
	setRequired(t)
	want, err := loadConfig(needsAll)
	require.NoError(t, err)
	values := map[string]string{
		"CURRENCY": "USD", "RETRY_DELAYS": "1s,2s", "MAX_AGE": "72h", "FLOOD_RATIO": "0.9", "HTTP_ADDR": ":1", "LOG_LEVEL": "debug", "FAULT_POLICY": "document",
		"DATABASE_URL": "postgres://other/other", "PROVIDER_URL": "https://other.example", "KAFKA_BROKERS": "other:1",
	}
	fields := reflect.TypeFor[Config]()
	for i := range fields.NumField() {
		bare := strings.TrimPrefix(variable(fields.Field(i)), prefix)
		value := values[bare]
		if value == "" {
			value = "7s"
		}
		for _, name := range []string{bare, strings.ToLower(bare), fields.Field(i).Name, strings.ToUpper(fields.Field(i).Name), bare + "_FILE"} {
			t.Setenv(name, value)
		}
	}
	got, err := loadConfig(needsAll)
	require.NoError(t, err)
	require.Equal(t, want, got)

	require.NoError(t, os.Unsetenv("BILLING_DATABASE_URL"))
	_, err = loadConfig(needsAll)
	require.ErrorContains(t, err, "BILLING_DATABASE_URL is required")
}

// What is set but empty is a mistake of a script. It never becomes a value, or a default that is pinned for ever.
func TestEmptyIsNotAValue(t *testing.T) {
	fields := reflect.TypeFor[Config]()
	for i := range fields.NumField() {
		f := fields.Field(i)
		setRequired(t)
		required := f.Name == "KafkaBrokers" || f.Name == "DatabaseURL" || f.Name == "ProviderURL"
		for _, empty := range []string{"", " ", "\n"} {
			t.Setenv(variable(f), empty)
			_, err := loadConfig(needsAll)
			if !required && f.Tag.Get("default") == "" && empty == "" {
				require.NoError(t, err, "%s: as if it were not set", variable(f))
				continue
			}
			require.ErrorContains(t, err, variable(f)+" ", "%q", empty)
			require.Equal(t, exitUsage, exitCode(err))
		}
		require.NoError(t, os.Unsetenv(variable(f)))
	}
}

// Each of these was taken once, or failed later with words that named no setting.
func TestMistypedSettings(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"KAFKA_BROKERS", `"localhost:9092"`, "stands in quotes"},
		{"KAFKA_BROKERS", `'a:9092','b:9092'`, "stands in quotes"},
		{"KAFKA_BROKERS", "localhost", "entry 1 is not host:port"},
		{"KAFKA_BROKERS", "a:9092,b", "entry 2 is not host:port"},
		{"KAFKA_BROKERS", "a:9092,", "entry 2 is not host:port"},
		{"KAFKA_BROKERS", "kafka://a:9092", "begins with a scheme"},
		{"KAFKA_BROKERS", "a:0", "has no port"},
		{"KAFKA_BROKERS", "a:99999", "has no port"},
		{"KAFKA_BROKERS", ":9092", "has no host"},
		{"KAFKA_BROKERS", "a;b:9092", "neither a name nor an address"},
		{"KAFKA_SECURITY_PROTOCOL", "TLS", "not one of PLAINTEXT, SSL"},
		{"KAFKA_SASL_MECHANISM", "SCRAM", "not one of PLAIN, SCRAM-SHA-256"},
		{"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "BILLING_KAFKA_SASL_PASSWORD is required with"},
		{"KAFKA_SSL_CA", "/not/here.pem", "no such file"},
		{"KAFKA_SSL_CA", "-----BEGIN PRIVATE KEY-----\nhush\n", "holds a private key"},
		{"KAFKA_EXTRA", "sesion.timeout.ms=1000", "sesion.timeout.ms is not a property of the client"},
		{"KAFKA_EXTRA", "auto.commit.interval.ms=0", "auto.commit.interval.ms must be between"},
		{"KAFKA_EXTRA", "session.timeout.ms=soon", "session.timeout.ms has a value"},
		{"KAFKA_EXTRA", "session.timeout.ms=600000", "session.timeout.ms"},
		{"TOPIC", `"orders"`, "stands in quotes"},
		{"TOPIC", "orders confirmed", "is not a name"},
		{"TOPIC", "orders/confirmed", "is not a name"},
		{"TOPIC", "..", "is not a name"},
		{"TOPIC", strings.Repeat("a", 240), "is too long"},
		{"TOPIC", "orders.confirmed.dlq", "not the one that orders arrive on"},
		{"TOPIC", "orders.confirmed.retry-5s", "not the one that orders arrive on"},
		{"TOPIC", "billing.charges", "not the one that orders arrive on"},
		{"GROUP", "billing group", "is not a name"},
		{"GROUP", "ops-monitoring", "whose offset tells"},
		{"ENVIRONMENT", "pro|duction", "is not a name"},
		{"ENVIRONMENT", "'production'", "stands in quotes"},
		{"PROVIDER_ACCOUNT", strings.Repeat("a", 65), "at most 64"},
		{"RETRY_DELAYS", "5s,5s", "holds a delay twice"},
		{"RETRY_DELAYS", "5s,30s,-1s", "not ascending"},
		{"RETRY_DELAYS", "-5s", "not all between"},
		{"RETRY_DELAYS", "5s,9000h", "not all between"},
		{"RETRY_DELAYS", "100ms,100.0001ms", "parts of a millisecond"},
		{"RETRY_DELAYS", "5,30", "cannot be read as durations"},
		{"RETRY_DELAYS", "1s,2s,3s,4s,5s,6s,7s,8s,9s,10s,11s", "holds 11 delays"},
		{"DATABASE_URL", "localhost:5432/billing", "is neither postgres://"},
		{"DATABASE_URL", "mysql://localhost/billing", "is neither postgres://"},
		{"DATABASE_URL", "postgres://b:p@localhost:port/billing", "is neither postgres://"},
		{"DATABASE_URL", "postgres://b:p@localhost/billing?sslrootcert=/not/here.pem", "names a file as sslrootcert: open /not/here.pem: no such file"},
		{"DATABASE_URL", "host=localhost dbname=billing sslrootcert=/not/here.pem", "names a file as sslrootcert: open /not/here.pem: no such file"},
		{"DATABASE_URL", "postgres://b:p@localhost/billing?sslmode=perhaps", "cannot be read by the driver"},
		{"DATABASE_URL", `"postgres://b:p@localhost/billing"`, "stands in quotes"},
		{"DATABASE_MAX_CONNS", "3", "is not between 6 and 1000"},
		{"PROVIDER_URL", "billing.example.com", "does not begin with http"},
		{"PROVIDER_URL", "ftp://billing.example.com", "does not begin with http"},
		{"PROVIDER_URL", "https://u:p@billing.example.com", "holds a user or a password"},
		{"PROVIDER_URL", "https://billing.example.com?token=x", "holds a query"},
		{"PROVIDER_URL", "https://billing.example.com#x", "holds a query or a fragment"},
		{"PROVIDER_URL", "https://billing.example.com/v1/charges", "ends with /v1/charges"},
		{"PROVIDER_URL", "https://", "has no host"},
		{"PROVIDER_URL", "https://billing.example.com:99999", "has no port"},
		{"PROVIDER_URL", "https://billing example", "is not a URL"},
		{"PROVIDER_TOKEN", "two words", "not one word"},
		{"PROVIDER_TOKEN", "a\nb", "holds a line break"},
		{"PROVIDER_TOKEN", "token\n", "ends with a space or a line break"},
		{"PROVIDER_TIMEOUT", "10", "cannot be read as a duration"},
		{"PROVIDER_TIMEOUT", "10h", "is not between"},
		{"PROVIDER_TIMEOUT", "-1s", "is not between"},
		{"PROVIDER_KEY_TTL", "3h", "is not longer than BILLING_KEY_MARGIN"},
		{"LEASE", "1000h", "is not between"},
		{"STOP_TIMEOUT", "0", "is not between"},
		{"MAX_AGE", "30s", "die of waiting for their retry"},
		{"FLOOD_RATIO", "NaN", "is not more than 0"},
		{"FLOOD_RATIO", "50%", "cannot be read as a number"},
		{"REPLAY_TARGETS", "orders.confirmed.dlq", "not the main topic or one of its retry topics"},
		{"HTTP_ADDR", "8080", "is not host:port"},
		{"HTTP_ADDR", "http://:8080", "begins with a scheme"},
		{"HTTP_ADDR", ":http", "has no port"},
		{"PRIVATE_ADDR", ":8080", "is the same as BILLING_HTTP_ADDR"},
		{"CURRENCY", "eur", "not an ISO 4217 code"},
		{"ADMIN_TOKENS", "a:viewer:" + strings.Repeat("5f0c7b9a", 4) + "\n", "ends with a space or a line break"},
		{"ADMIN_TOKENS", "a:viewer:" + strings.Repeat("5f0c7b9a ", 4) + "x", "has a space"},
		{"ADMIN_TOKENS", "a:viewer:" + strings.Repeat("5f0c7b9a", 4) + ",b:operator:" + strings.Repeat("5f0c7b9a", 4), "the same token"},
	} {
		setRequired(t)
		t.Setenv("BILLING_"+c.name, c.value)
		_, err := loadConfig(needsAll)
		require.ErrorContains(t, err, "BILLING_"+c.name[:strings.LastIndex(c.name, "_")+1], "%s=%q", c.name, c.value)
		require.ErrorContains(t, err, c.want, "%s=%q", c.name, c.value)
		require.ErrorContains(t, err, "(example: ")
		require.Equal(t, exitUsage, exitCode(err))
	}
}

// What looks odd and is right.
func TestUnusualSettingsThatAreRight(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"KAFKA_BROKERS", "a:9092, b-1.example:9093,[::1]:9092,10.0.0.1:9092"},
		{"KAFKA_SECURITY_PROTOCOL", "plaintext"},
		{"KAFKA_EXTRA", "session.timeout.ms=45000,group.instance.id=billing-0,linger.ms=1,fetch.wait.max.ms=100"},
		{"DATABASE_URL", "host=localhost user=billing password='two words' dbname=billing sslmode=disable"},
		{"DATABASE_URL", "postgresql://billing@localhost,other:5433/billing?target_session_attrs=read-write&application_name=x"},
		{"DATABASE_URL", "postgres:///billing?host=/run/postgresql&user=billing"},
		{"PROVIDER_URL", "http://[::1]:9099/base/"},
		{"RETRY_DELAYS", "1s,1h30m"},
		{"MAX_AGE", "off"},
		{"HTTP_ADDR", "[::1]:0"},
		{"REPLAY_TARGETS", "orders.confirmed"},
	} {
		setRequired(t)
		t.Setenv("BILLING_"+c.name, c.value)
		_, err := loadConfig(needsAll)
		require.NoError(t, err, "%s=%q", c.name, c.value)
	}
}

// What cannot be read does not hide what is wrong elsewhere, and brings no problem that is only its consequence.
func TestUnreadableAndWrongAtOnce(t *testing.T) {
	setRequired(t)
	for name, value := range map[string]string{"LEASE": "15", "GROUP": "", "PROVIDER_URL": "provider", "TOPIC": `"t"`} {
		t.Setenv("BILLING_"+name, value)
	}
	_, err := loadConfig(needsAll)
	require.Equal(t, 4, strings.Count(err.Error(), "(example: "), err)
	for _, name := range []string{"LEASE", "GROUP", "PROVIDER_URL", "TOPIC"} {
		require.ErrorContains(t, err, "BILLING_"+name+" ")
	}
}

// A certificate that only other commands need must not stop a migration.
func TestFilesMatterOnlyToWhoReadsThem(t *testing.T) {
	setRequired(t)
	t.Setenv("BILLING_KAFKA_SSL_CA", filepath.Join(t.TempDir(), "none"))
	_, err := loadConfig(needsDatabase)
	require.NoError(t, err)
	_, err = loadConfig(needsKafka)
	require.ErrorContains(t, err, "BILLING_KAFKA_SSL_CA")
}

// A token that stands in this repository is for trying out.
func TestPublicTokensOnlyOnOnesOwnMachine(t *testing.T) {
	setRequired(t)
	t.Setenv("BILLING_ADMIN_TOKENS", "local:operator:local-only-operator-token")
	_, err := loadConfig(needsAll)
	require.ErrorContains(t, err, "BILLING_ADMIN_TOKENS cannot be taken: the token of \"local\" stands in")
	t.Setenv("BILLING_ENVIRONMENT", "local")
	_, err = loadConfig(needsAll)
	require.NoError(t, err)
}
