package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"example.com/billing/internal/testkit"
)

// refusesToStart runs `billing serve` and expects it to end by itself with the code, naming all that is said.
func (w *world) refusesToStart(settings []string, code int, names ...string) {
	w.t.Helper()
	c := w.run(settings, "serve")
	require.Equal(w.t, code, c.code, c.err)
	for _, name := range names {
		require.Contains(w.t, c.err, name)
	}
	w.checkLog(c.err)
}

func TestMissingTopicRefusesTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, topic := range append([]string{w.main, w.dlq}, w.tiers...) {
		_, err := w.kafka.Admin.DeleteTopic(t.Context(), topic)
		require.NoError(t, err)
		w.await(func() bool {
			plan := w.run(nil, "topics", "plan", "--partitions", "3")
			return plan.code == 3 && strings.Contains(plan.out, "create "+topic+":")
		}, "%s is gone", topic)
		w.refusesToStart(nil, 1, topic, "billing topics apply")
		w.mustRun("topics", "apply", "--partitions", "3")
	}
	w.mustRun("topics", "plan")
	w.start().stop()
}

func TestSchemaBehindRefusesTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.db.Pool.Exec(t.Context(), `DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
	require.NoError(t, err)
	w.refusesToStart(nil, 1, "billing migrate up")
	require.Contains(t, w.mustRun("migrate", "status").out, "pending")
	require.Contains(t, w.mustRun("migrate", "up").out, "applied")
	require.Contains(t, w.mustRun("migrate", "up").out, "up to date")
	require.NotContains(t, w.mustRun("migrate", "status").out, "pending")
	w.start().stop()
}

// The keys of waiting orders follow from these (H6, H7): a renamed one would charge them again.
func TestRenamedInstallationRefusesTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start().stop()
	w.refusesToStart([]string{"BILLING_ENVIRONMENT=staging"}, 1, "BILLING_ENVIRONMENT", "staging", "default")
	w.refusesToStart([]string{"BILLING_PROVIDER_ACCOUNT=other"}, 1, "BILLING_PROVIDER_ACCOUNT", "other")
	w.refusesToStart([]string{"BILLING_GROUP=" + w.group + "-2"}, 1, "BILLING_GROUP")
	w.start().stop()
}

func TestAllBadSettingsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	env := environ(nil, "BILLING_PROVIDER_URL=billing.example.com", "BILLING_LEASE=4s", "BILLING_CURRENCY=EURO",
		"BILLING_RETRY_DELAYS=30s,5s", "BILLING_FAULT_POLICY=lenient", "BILLING_CONCURRENCY=0", "BILLING_DATABASE_MAX_CONNS=1", "BILLING_KAFKA_EXTRA=acks=1")
	c := runCommand(t, env, "serve")
	require.Equal(t, 2, c.code)
	for _, name := range []string{
		"KAFKA_BROKERS", "DATABASE_URL", "PROVIDER_URL", "LEASE", "CURRENCY", "RETRY_DELAYS", "FAULT_POLICY", "CONCURRENCY", "DATABASE_MAX_CONNS", "KAFKA_EXTRA",
	} {
		require.Regexp(t, `(?m)^(billing: )?BILLING_`+name+` .*\(example: .+\)$`, c.err)
	}
	unreadable := runCommand(t, environ(nil, "BILLING_LEASE=soon", "BILLING_CONCURRENCY=many"), "serve")
	require.Equal(t, 2, unreadable.code)
	require.Contains(t, unreadable.err, "BILLING_LEASE")
	require.Contains(t, unreadable.err, "BILLING_CONCURRENCY")
	require.Equal(t, 2, runCommand(t, environ(nil), "serves").code, "an unknown command")
	require.Equal(t, 2, runCommand(t, environ(nil), "serve", "--fast").code, "an unknown flag")
}

// A Kubernetes Service named billing injects BILLING_PORT and others.
func TestUnknownVariableIsAWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start("BILLING_PORT=tcp://10.0.0.1:8080", "BILLING_RETRY_DELAY=5s")
	require.Contains(t, i.log.text(), "BILLING_RETRY_DELAY is not a setting; the nearest is BILLING_RETRY_DELAYS")
	require.Contains(t, i.log.text(), "BILLING_PORT is not a setting")
	i.stop()
}

// Secrets from files, as an orchestrator mounts them; and nothing shows them.
func TestSecretsFromFilesAreNeverShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	var settings []string
	for _, name := range []string{"BILLING_DATABASE_URL", "BILLING_PROVIDER_URL", "BILLING_PROVIDER_TOKEN", "BILLING_ADMIN_TOKENS"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(w.settings[name]+"\n"), 0o600))
		settings = append(settings, name+"=", name+"_FILE="+path)
	}
	i := w.start(append(settings, "BILLING_LOG_LEVEL=debug")...)
	o := w.newOrder()
	w.produce(o)
	w.awaitCharged(o)
	require.Zero(t, i.unresolved(), "the tokens are known")
	i.stop()

	for _, config := range []command{w.run(settings, "config"), w.run(nil, "config")} {
		require.Zero(t, config.code, config.err)
		w.checkLog(config.out)
		require.Contains(t, config.out, "BILLING_PROVIDER_TOKEN")
		require.NotContains(t, config.out, password(t, w.settings["BILLING_DATABASE_URL"]))
	}
	twice := w.run([]string{"BILLING_PROVIDER_TOKEN_FILE=" + filepath.Join(dir, "BILLING_PROVIDER_TOKEN")}, "config")
	require.Equal(t, 2, twice.code)
	require.Contains(t, twice.err, "BILLING_PROVIDER_TOKEN")
	w.checkLog(twice.err)
}

// password of a database URL, with the colon and the at sign around it: it may be a word that stands elsewhere, too.
func password(t *testing.T, databaseURL string) string {
	t.Helper()
	_, rest, _ := strings.Cut(databaseURL, "://")
	userinfo, _, found := strings.Cut(rest, "@")
	_, secret, has := strings.Cut(userinfo, ":")
	if !found || !has {
		return "no password in " + t.Name() // a server that trusts its clients
	}
	return ":" + secret + "@"
}

func TestConfigCheckReachesEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Contains(t, w.mustRun("config", "--check").out, "database: ok")
	w.provider.down()
	c := w.run(nil, "config", "--check")
	require.Equal(t, 3, c.code)
	require.Contains(t, c.out, "provider: ")
	require.Contains(t, c.out, "brokers and topics: ok")
}

// H7: another list of delays would leave the orders of a tier that nobody reads any more.
func TestLeftTierRefusesTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	left := w.main + ".retry-4s"
	w.kafka.CreateTopics(1, left)
	w.start().stop()
	o := w.newOrder()
	w.kafka.Produce(o.record(left))
	w.refusesToStart(nil, 1, "1 orders wait in "+left, "BILLING_RETRY_DELAYS")
	w.start("BILLING_RETRY_DELAYS=1s,2s,3s,4s")
	w.awaitCharged(o)
}

// H11: a topic that was created again has other offsets; a person decides.
func TestRecreatedTopicRefusesTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start().stop()
	_, err := w.kafka.Admin.DeleteTopic(t.Context(), w.main)
	require.NoError(t, err)
	w.await(func() bool {
		plan := w.run(nil, "topics", "plan", "--partitions", "3")
		return strings.Contains(plan.out, "create "+w.main+":")
	}, "the topic is gone")
	w.mustRun("topics", "apply", "--partitions", "3")
	w.refusesToStart(nil, 1, w.main, "billing topics accept")
	require.Contains(t, w.mustRun("topics", "accept").out, "accepted "+w.main)
	require.Contains(t, w.mustRun("topics", "accept").out, "nothing to accept")
	w.start()
	o := w.newOrder()
	w.produce(o)
	w.awaitCharged(o)
}

// H11: a retry topic that comes back with fewer partitions, or with more, begins with its first record as well.
func TestTopicRecreatedWithOtherPartitions(t *testing.T) {
	t.Parallel()
	for _, partitions := range []string{"1", "5"} {
		t.Run(partitions, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			i := w.start()
			before := w.failOnce(4)
			w.awaitCharged(before...)
			i.stop()
			_, err := w.kafka.Admin.DeleteTopic(t.Context(), w.tiers[0])
			require.NoError(t, err)
			w.await(func() bool { return strings.Contains(w.run(nil, "topics", "plan").out, "create "+w.tiers[0]+":") }, "the topic is gone")
			w.mustRun("topics", "apply", "--partitions", partitions)
			w.refusesToStart(nil, 1, w.tiers[0], "billing topics accept")
			require.Contains(t, w.mustRun("topics", "accept").out, "accepted "+w.tiers[0]+" as it was created again: group "+w.groupOf(w.tiers[0])+" begins with its first record")
			w.start()
			after := w.newOrders(4)
			for _, o := range after {
				w.provider.script(o, refuses(500, "later"))
				w.produce(o)
				w.awaitCharged(o)
			}
			w.chargedOnce(append(before, after...)...)
			require.Equal(t, 4, w.kafka.Count(w.tiers[0]))
			w.settled()
		})
	}
}

// H11, while it is read: the service ends rather than go on at an offset that means nothing, also when it had committed there.
func TestTopicRecreatedWhileItIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	before := make([]order, 9)
	for n := range before {
		before[n] = w.newOrder()
	}
	w.produce(before...)
	w.awaitCharged(before...)
	i.ended = true // by itself, some time after this
	_, err := w.kafka.Admin.DeleteTopic(t.Context(), w.main)
	require.NoError(t, err)
	w.await(func() bool {
		return strings.Contains(w.run(nil, "topics", "plan", "--partitions", "3").out, "create "+w.main+":")
	}, "the topic is gone")
	w.mustRun("topics", "apply", "--partitions", "3")
	w.kafka.Client.PurgeTopicsFromClient(w.main)
	after := w.newOrder()
	w.produce(after)
	testkit.Receive(t, i.exited, "the service to end")
	require.Equal(t, 1, i.cmd.ProcessState.ExitCode())
	require.Regexp(t, "was created again while it was read|run backwards", i.log.text())

	_, err = w.kafka.Admin.CommitOffsets(t.Context(), w.group, wholeTopic(w.main, 3, 2)) // as one may have that had not noticed
	require.NoError(t, err)
	w.refusesToStart(nil, 1, w.main, "billing topics accept")
	w.mustRun("topics", "accept")
	w.start()
	w.awaitCharged(after)
}

// wholeTopic is the same offset in each partition.
func wholeTopic(topic string, partitions int32, at int64) kadm.Offsets {
	offsets := kadm.Offsets{}
	for p := range partitions {
		offsets.AddOffset(topic, p, at, -1)
	}
	return offsets
}
