package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// secret stands in every place of these tests that may hold one, with a number that tells which.
const secret = "Zeb7Quokka"

// good are settings that can be read, of servers that do not exist.
func good() map[string]string {
	return map[string]string{
		"BILLING_KAFKA_BROKERS":           "127.0.0.1:1",
		"BILLING_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
		"BILLING_KAFKA_SASL_MECHANISM":    "PLAIN",
		"BILLING_KAFKA_SASL_USERNAME":     "billing",
		"BILLING_KAFKA_SASL_PASSWORD":     secret + "1",
		"BILLING_KAFKA_EXTRA": "ssl.key.password=" + secret + "2,ssl.keystore.password=" + secret + "3,sasl.oauthbearer.client.secret=" + secret +
			"4,client.rack=a",
		"BILLING_DATABASE_URL":   "postgres://billing:" + secret + "5@127.0.0.1:1/billing?sslmode=disable&application_name=x",
		"BILLING_PROVIDER_URL":   "http://127.0.0.1:1",
		"BILLING_PROVIDER_TOKEN": secret + "6",
		"BILLING_ADMIN_TOKENS":   "a:viewer:" + secret + "-7-0123456789",
		"BILLING_ADMIN_TOKEN":    secret + "8",
		"BILLING_ADMIN_URL":      "http://127.0.0.1:1",
		"BILLING_HTTP_ADDR":      "127.0.0.1:0",
	}
}

// everyCommand reads settings or a token, and fails since nothing answers.
var everyCommand = []string{
	"config", "config --check", "config unpin --reason x", "serve", "migrate up", "migrate status", "topics plan", "topics apply", "topics accept",
	"reconcile", "balance", "dlq list", "dlq show 0/1", "dlq replay --all --yes --reason x",
}

// No secret is ever printed, by any command, in any failure.
func TestSecretsAreNeverPrinted(t *testing.T) {
	require.Contains(t, run(t, good(), "config"), "client.rack=a")
	for _, command := range everyCommand {
		require.NotContains(t, run(t, good(), command), secret, command)
	}
	// The same secrets where they do not belong, or not in this form: problems name the setting and do not quote it.
	for name, values := range map[string][]string{
		"BILLING_DATABASE_URL": {
			"host=127.0.0.1 port=1 user=billing password=%s dbname=billing", "host=127.0.0.1 port=1 password = '%s x' dbname=billing", "host=127.0.0.1 password='%s",
			"postgres://127.0.0.1:1/billing?user=billing&password=%s", "postgres://127.0.0.1:1/billing?sslmode=disable&sslpassword=%s&sslkey=/x",
			"postgres://billing:%s@127.0.0.1:port/billing", "postgres://billing:%s%%zz@127.0.0.1:1/billing", "postgres:billing:%s@127.0.0.1", "%s",
			"postgres://billing:%s@127.0.0.1:1/billing?sslmode=perhaps", "\"postgres://billing:%s@127.0.0.1:1/billing\"", "postgres://billing:%s@127.0.0.1:1/billing\n",
			"postgres://billing:%s@127.0.0.1:1/billing?options=-c%%20x=%[1]s", "mysql://billing:%s@127.0.0.1:1/billing", "postgres://billing:%s@/x?sslrootcert=/x",
		},
		"BILLING_PROVIDER_URL": {
			"http://user:%s@127.0.0.1:1", "http://127.0.0.1:1?token=%s", "http://127.0.0.1:1/#%s", "http://%s:x@127.0.0.1:port", "http://user:%s%%zz@127.0.0.1", "ftp://user:%s@x",
		},
		"BILLING_PROVIDER_TOKEN":      {"Bearer %s", "%s\n", "'%s'", "%s\x00", "é%s"},
		"BILLING_KAFKA_SASL_PASSWORD": {"%s\n", "\"%s\"", " %s"},
		"BILLING_KAFKA_EXTRA": {
			"sasl.password=%s", "sasl.password=%s,%[1]s", "sasl.password=x,%s=y", "sasl.password %s", "ssl.key.password=x,acks.%s=1", "ssl.key.pem=%s",
			"sasl.oauthbearer.config=%s", "ssl.key.location=/x,ssl.key.password=%s", "\"sasl.password=%s\"", "sasl.password=x,Q%s=1", "%s",
		},
		"BILLING_ADMIN_TOKENS": {"a:viewer:%s", "%s", "a:%s:viewer", "a:viewer:%s 0123456789", "a:viewer:%s-123456,b:operator:%[1]s-123456", "'a:viewer:%s-12345678'"},
		"BILLING_KAFKA_SSL_CA": {"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n"},
		"BILLING_ADMIN_TOKEN":  {"%s\n", "%s \x01"},
		"BILLING_ADMIN_URL":    {"http://user:%s@127.0.0.1:1", "http://127.0.0.1:1/?token=%s", "http://user:%s@127.0.0.1:port"},
	} {
		for _, value := range values {
			wrong := good()
			wrong[name] = fmt.Sprintf(value, secret+"9")
			for _, command := range commandsOf(name) {
				require.NotContains(t, run(t, wrong, command), secret, "%s: %s=%s", command, name, value)
			}
		}
	}
}

// commandsOf are the commands that work with the setting.
func commandsOf(name string) []string {
	if strings.HasPrefix(name, "BILLING_ADMIN_TOKEN") || name == "BILLING_ADMIN_URL" {
		return []string{"config", "dlq list"}
	}
	return []string{"config --check", "serve"}
}

// What a file holds is as secret as what a variable holds.
func TestSecretsOfFilesAreNeverPrinted(t *testing.T) {
	for _, content := range []string{secret, secret + " x", `"` + secret + `"`, secret + "\n" + secret} {
		settings := good()
		for _, name := range []string{"BILLING_KAFKA_SASL_PASSWORD", "BILLING_DATABASE_URL", "BILLING_PROVIDER_URL", "BILLING_PROVIDER_TOKEN", "BILLING_ADMIN_TOKENS"} {
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			delete(settings, name)
			settings[name+"_FILE"] = path
		}
		for _, command := range []string{"config", "serve", "migrate status"} {
			out := run(t, settings, command)
			require.NotContains(t, out, secret, command)
			require.Contains(t, out, "BILLING_DATABASE_URL", command)
		}
	}
}

// run runs a command in an environment of nothing but the settings, for a moment, and returns all that it wrote.
func run(t *testing.T, settings map[string]string, command string) string {
	t.Helper()
	setRequired(t)
	for name, value := range settings {
		if !strings.Contains(value, "\x00") { // no environment can hold it
			t.Setenv(name, value)
		}
	}
	file, err := os.CreateTemp(t.TempDir(), "out")
	require.NoError(t, err)
	defer func(out, err *os.File) { os.Stdout, os.Stderr = out, err }(os.Stdout, os.Stderr)
	os.Stdout, os.Stderr = file, file
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	root := newRootCommand()
	root.SetArgs(strings.Fields(command))
	root.SetOut(file)
	root.SetErr(file)
	exitCode(root.ExecuteContext(ctx))
	_, err = file.Seek(0, io.SeekStart)
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	require.NotEmpty(t, text, command)
	for name := range settings {
		require.NoError(t, os.Unsetenv(name))
	}
	return string(text)
}
