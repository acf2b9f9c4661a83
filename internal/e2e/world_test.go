package e2e

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/testkit"
)

// The secrets of every world. None may ever be seen in a log. Tokens that stand in a repository are refused, so they are made.
var (
	providerToken = "provider-" + uuid.NewString()
	operatorToken = "operator-" + uuid.NewString()
	viewerToken   = "viewer-" + uuid.NewString()
)

// delays of the retry topics. The topics are named after them.
var delays = []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}

// world is all that is around the service in one test: its own topics, groups, database and provider.
type world struct {
	t        *testing.T
	kafka    *testkit.Cluster
	db       *testkit.Database
	provider *provider
	tail     *tail
	customer uuid.UUID // of every order; personal, so it may not be seen in a log

	main, group string
	tiers       []string // the retry topics, shortest delay first
	dlq         string
	settings    map[string]string
	serving     *[]*instance // all that were started, to notice one that ends by itself
}

// results is where the result events go. The name is fixed: on a shared cluster other tests write there, too.
const results = "billing.charges"

// newWorld makes a world with its topics. What the settings change is changed for every instance; they look like
// "BILLING_LEASE=3s".
func newWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	return newWorldOn(t, testkit.Kafka(t), settings...)
}

func newWorldOn(t *testing.T, kafka *testkit.Cluster, settings ...string) *world {
	t.Helper()
	w := &world{t: t, kafka: kafka, db: testkit.Postgres(t), provider: newProvider(t), customer: uuid.New(), serving: &[]*instance{}}
	w.main, w.group = kafka.Name("orders.confirmed"), kafka.Name("billing-order-confirmed")
	w.settings = map[string]string{
		"BILLING_KAFKA_BROKERS":    kafka.Brokers,
		"BILLING_DATABASE_URL":     w.db.URL,
		"BILLING_PROVIDER_URL":     w.provider.url(),
		"BILLING_PROVIDER_TOKEN":   providerToken,
		"BILLING_PROVIDER_TIMEOUT": "3s",
		"BILLING_LEASE":            "5s",
		"BILLING_TOPIC":            w.main,
		"BILLING_GROUP":            w.group,
		"BILLING_RETRY_DELAYS":     "1s,2s,3s",
		"BILLING_HTTP_ADDR":        "127.0.0.1:0",
		"BILLING_ADMIN_TOKENS":     "olga:operator:" + operatorToken + ",vera:viewer:" + viewerToken,
	}
	maps.Copy(w.settings, asMap(settings))
	for _, delay := range strings.Split(w.settings["BILLING_RETRY_DELAYS"], ",") {
		w.tiers = append(w.tiers, w.main+".retry-"+delay)
	}
	w.dlq = w.main + ".dlq"
	w.mustRun("topics", "apply", "--partitions", "3")
	w.tail = newTail(t, kafka, append(slices.Clone(w.tiers), w.dlq, results)...)
	return w
}

// killable are settings under which a killed instance is missed soon. A real broker takes no shorter session than six
// seconds.
func killable() []string {
	session := "3000"
	if os.Getenv("BILLING_TEST_KAFKA_BROKERS") != "" {
		session = "6000"
	}
	return []string{"BILLING_KAFKA_EXTRA=session.timeout.ms=" + session, "BILLING_PROVIDER_TIMEOUT=2s", "BILLING_LEASE=4s"}
}

// in is the same world, failing a subtest.
func (w *world) in(t *testing.T) *world {
	sub := *w
	sub.t = t
	return &sub
}

// patience is how long a test waits for what must happen. A passing test never waits it out.
const patience = 60 * time.Second

// await waits until the condition holds. It looks every few milliseconds, on the test's own goroutine.
func (w *world) await(holds func() bool, what string, args ...any) {
	w.t.Helper()
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for !holds() {
		for _, i := range *w.serving {
			if !i.running() && !i.ended { // its state may be read only then
				require.FailNowf(w.t, "billing serve ended by itself", "%v", i.cmd.ProcessState)
			}
		}
		if time.Now().After(deadline) {
			require.FailNowf(w.t, "waited in vain", what, args...)
		}
		<-tick.C
	}
}

// environ is that of a command: ours without any BILLING_… that may be there, then the settings.
func (w *world) environ(settings ...string) []string {
	return environ(w.settings, settings...)
}

func environ(base map[string]string, settings ...string) []string {
	all := asMap(settings)
	for name, value := range base {
		if _, given := all[name]; !given {
			all[name] = value
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "BILLING_") || strings.HasPrefix(e, "OTEL_")
	})
	for name, value := range all {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func asMap(settings []string) map[string]string {
	m := map[string]string{}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		m[name] = value
	}
	return m
}

// command is what a command printed, and how it ended.
type command struct {
	out, err string
	code     int
}

// run runs a command to its end.
func (w *world) run(settings []string, args ...string) command {
	w.t.Helper()
	return runCommand(w.t, w.environ(settings...), args...)
}

func runCommand(t *testing.T, env []string, args ...string) command {
	t.Helper()
	var out, err strings.Builder
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &err
	failed := cmd.Run()
	if failed != nil {
		require.ErrorAs(t, failed, new(*exec.ExitError))
	}
	return command{out.String(), err.String(), cmd.ProcessState.ExitCode()}
}

func (w *world) mustRun(args ...string) command {
	w.t.Helper()
	c := w.run(nil, args...)
	require.Zero(w.t, c.code, "billing %s: %s", strings.Join(args, " "), c.err)
	return c
}
