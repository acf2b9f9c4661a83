package e2e

import (
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/testkit"
)

// with runs a command with other settings and expects it to succeed.
func (w *world) with(settings []string, args ...string) command {
	w.t.Helper()
	c := w.run(settings, args...)
	require.Zero(w.t, c.code, "billing %s: %s", strings.Join(args, " "), c.err)
	return c
}

// handedOn is the number that a drain prints.
func handedOn(t *testing.T, c command) int {
	t.Helper()
	n, err := strconv.Atoi(regexp.MustCompile(`^(\d+) orders of `).FindStringSubmatch(c.out)[1])
	require.NoError(t, err)
	return n
}

// failOnce makes orders that wait in the first retry topic: each has failed once.
func (w *world) failOnce(n int) []order {
	w.t.Helper()
	os := w.newOrders(n)
	for _, o := range os {
		w.provider.script(o, refuses(500, "later"))
	}
	w.produce(os...)
	for _, o := range os {
		w.awaitOne(w.tiers[0], o)
	}
	return os
}

// H28: other delays while orders wait. The start is refused by name; the drain hands them on, none before its time.
func TestChangedDelaysLeaveNoOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ delays, to string }{
		"a delay that is long enough":    {"1s,20s", "20s"},
		"delays that are all shorter":    {"1s,2s", "2s"},
		"the first of two that are long": {"12s,30s", "12s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "BILLING_RETRY_DELAYS=10s,11s")
			i := w.start()
			os := w.failOnce(3)
			i.stop()
			left, other := w.tiers[0], []string{"BILLING_RETRY_DELAYS=" + c.delays}
			w.with(other, "topics", "apply", "--partitions", "3")
			w.refusesToStart(other, 1, "3 orders wait in "+left, "BILLING_RETRY_DELAYS", "billing topics drain "+left)

			require.Equal(t, 3, handedOn(t, w.with(other, "topics", "drain", left)))
			require.Zero(t, handedOn(t, w.with(other, "topics", "drain", left)), "nothing is left")
			first, _, _ := strings.Cut(c.delays, ",") // for those that have become due meanwhile
			require.Equal(t, 3, sumOf(w, map[string]bool{c.to: true, first: true}))
			w.start(other...)
			w.awaitCharged(os...)
			w.chargedOnce(os...)
			for _, o := range os {
				requests := w.provider.requestsOf(o)
				due := w.millis(w.tail.of(left, o.id.String())[0], "x-not-before")
				require.Len(t, requests, 2)
				require.False(t, requests[1].at.Before(due), "never early: %s before %s", requests[1].at, due)
			}
			w.settled()
		})
	}
}

// sumOf counts what the retry topics hold.
func sumOf(w *world, tiers map[string]bool) (n int) {
	w.t.Helper()
	for tier := range tiers {
		n += w.kafka.Count(w.main + ".retry-" + tier)
	}
	return n
}

// H28: two instances in a rolling change of the delays. What the old one leaves when it stops is told by the new one, until
// it is drained while that one runs.
func TestRollingChangeOfDelays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_RETRY_DELAYS=8s,9s")
	old := w.start()
	other := []string{"BILLING_RETRY_DELAYS=1s,2s"}
	w.with(other, "topics", "apply", "--partitions", "3")
	waiting := w.failOnce(2)
	young := w.start(other...) // orders wait, and an instance reads them: on their way
	w.awaitCharged(waiting...)

	var os []order
	for w.kafka.Count(w.tiers[0]) < 4 { // some of them go to the new one
		o := w.newOrder()
		os = append(os, o)
		w.provider.script(o, refuses(500, "later"))
		w.produce(o)
		w.await(func() bool { return len(w.provider.requestsOf(o)) > 0 }, "order %d is tried", len(os))
		good := w.newOrder()
		w.produce(good)
		w.awaitCharged(good)
	}
	left := w.tiers[0]
	require.NotContains(t, young.log.text(), "nobody reads")
	old.stop()
	w.await(func() bool {
		ok, reasons := young.ready()
		return !ok && strings.Contains(reasons, "topics: ") && strings.Contains(reasons, "billing topics drain "+left)
	}, "readiness tells of the topic")
	require.Positive(t, young.metric("billing_unread_records", `topic="`+left+`"`))
	line := young.log.find("orders wait in a topic that nobody reads")
	require.Equal(t, left, line["topic"])
	require.Equal(t, "billing topics drain "+left, line["next"])

	w.with(other, "topics", "drain", left)
	w.awaitCharged(os...)
	w.chargedOnce(append(os, waiting...)...)
	young.awaitReady()
	require.Zero(t, young.metric("billing_unread_records", `topic="`+left+`"`))
}

// H28: an instance that was killed is a member of its groups for a while, and reads nothing.
func TestKilledInstanceIsNoReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(killable(), "BILLING_RETRY_DELAYS=30s")...)
	i := w.start()
	w.failOnce(1)
	i.kill9()
	other := []string{"BILLING_RETRY_DELAYS=1s"}
	w.with(other, "topics", "apply", "--partitions", "3")
	w.refusesToStart(other, 1, "1 orders wait in "+w.tiers[0], "billing topics drain")
}

// H28, H30: another main topic while orders are unread in the one before. They are handed on, and the rename is accepted.
func TestAnotherMainTopicLeavesNoOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_RETRY_DELAYS=6s,7s")
	i := w.start()
	before := w.newOrder()
	w.produce(before)
	w.awaitCharged(before)
	waiting := w.failOnce(2)
	i.stop()
	unread := w.newOrders(8)
	originals := w.produce(append(unread, before.again())...) // and one that is charged already
	next := w.main + ".v2"
	other := []string{"BILLING_TOPIC=" + next}
	w.with(other, "topics", "apply", "--partitions", "3")
	w.refusesToStart(other, 1, "9 orders wait in "+w.main+",", "2 orders wait in "+w.tiers[0], "BILLING_TOPIC", "billing topics drain "+w.main)
	c := w.run(other, "topics", "accept")
	require.Equal(t, 1, c.code)
	require.Contains(t, c.err, "9 orders wait in "+w.main+",")

	require.Equal(t, 9, handedOn(t, w.with(other, "topics", "drain", w.main)))
	require.Equal(t, 2, handedOn(t, w.with(other, "topics", "drain", w.tiers[0])))
	w.refusesToStart(other, 1, "BILLING_TOPIC", w.main, next, "billing topics accept")
	require.Contains(t, w.with(other, "topics", "accept").out, "accepted "+next+" as the main topic instead of "+w.main)
	young := w.start(other...)
	w.awaitCharged(append(unread, waiting...)...)
	last := w.newOrder()
	w.kafka.Produce(last.record(next))
	w.awaitCharged(last)
	w.chargedOnce(append(append(unread, waiting...), before, last)...)
	for n, o := range unread {
		require.Equal(t, int(originals[n].Offset), w.count(`SELECT origin_offset FROM charges WHERE order_id = $1`, o.id), "it stands for the record of the old topic")
	}
	w.await(func() bool { return w.balance().Waiting == 0 }, "the old topic has ended") // its balance, by its own id
	b := w.settled()
	require.EqualValues(t, 1, b.Duplicate)
	require.Equal(t, 3, w.count(`SELECT count(DISTINCT topic_id) FROM known_topics WHERE name IN ($1, $2, $3)`, w.main, next, results))

	straggler := w.newOrder() // of a producer that nobody has told
	w.produce(straggler)
	w.await(func() bool {
		ok, reasons := young.ready()
		return !ok && strings.Contains(reasons, "1 orders wait in "+w.main+",")
	}, "the old topic is watched")
	w.with(other, "topics", "drain", w.main)
	w.awaitCharged(straggler)
	w.refusesToStart(nil, 1, "BILLING_TOPIC")
}

// H28: a drain that is killed at any moment is run again. None is lost, none charged twice.
func TestDrainIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_RETRY_DELAYS=2s,3s", "BILLING_FAULT_POLICY=document")
	i := w.start()
	w.provider.down()
	os := w.newOrders(300)
	w.produce(os...)
	w.await(func() bool { return w.kafka.Count(w.tiers[0]) == len(os) }, "all have failed once")
	i.stop()
	w.provider.up()
	other := []string{"BILLING_RETRY_DELAYS=1s", "BILLING_KAFKA_EXTRA=session.timeout.ms=6000"}
	w.with(other, "topics", "apply", "--partitions", "3")
	target, left := w.main+".retry-1s", append([]string{}, w.tiers...)
	kills := 0
	for _, topic := range left {
		for kills < 3 && topic == left[0] {
			before := w.kafka.Count(target)
			drain := exec.CommandContext(t.Context(), binary, "topics", "drain", topic)
			drain.Env = w.environ(other...)
			require.NoError(t, drain.Start())
			w.await(func() bool { return w.kafka.Count(target) > before || w.kafka.Count(target) >= len(os) }, "the drain hands on")
			_ = drain.Process.Kill() // it may have ended by itself
			_ = drain.Wait()
			kills++
		}
		w.with(other, "topics", "drain", topic)
	}
	t.Logf("%d records of %d orders handed on with %d kills", w.kafka.Count(target), len(os), kills)
	require.GreaterOrEqual(t, w.kafka.Count(target), len(os))
	w.start(other...)
	w.awaitCharged(os...)
	w.chargedOnce(os...)
	w.settled()
}

// What a drain refuses.
func TestDrainNamesWhatItCannotDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start().stop()
	for topic, says := range map[string]string{
		w.main: "billing serve", w.tiers[1]: "billing serve", w.dlq: "billing serve", results: "billing serve", "elsewhere": "was never read by this service",
	} {
		c := w.run(nil, "topics", "drain", topic)
		require.Equal(t, 2, c.code, c.err)
		require.Contains(t, c.err, topic)
		require.Contains(t, c.err, says)
	}
	require.Equal(t, 2, w.run(nil, "topics", "drain").code)
}

// H28: a topic that is still read, but whose offsets the brokers have forgotten since, holds no orders that wait; a topic of
// which nothing can be told now keeps no others waiting.
func TestLeftTopicWithoutOffsetsOrLeader(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, testkit.FakeKafka(t), "BILLING_RETRY_DELAYS=1s,2s")
	i := w.start()
	w.awaitCharged(w.failOnce(2)...)
	i.stop()
	left := w.tiers[0]
	other := []string{"BILLING_RETRY_DELAYS=3s"}
	w.with(other, "topics", "apply", "--partitions", "3")
	w.start(other...).stop() // notes how far the topic was read
	_, err := w.kafka.Admin.DeleteGroup(t.Context(), w.groupOf(left))
	require.NoError(t, err)
	w.start(other...).stop()

	fault := w.kafka.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: left, Err: kerr.LeaderNotAvailable, Count: -1})
	young := w.start(other...)
	w.awaitFault(fault)
	require.Contains(t, young.log.text(), "cannot tell whether orders wait")
	o := w.newOrder()
	w.produce(o)
	w.awaitCharged(o)
}

// H30: a second cluster on the same database: its relay would publish the first one's events.
func TestAnotherClusterRefusesTheStart(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, testkit.FakeKafka(t))
	i := w.start()
	o := w.newOrder()
	w.produce(o)
	w.awaitCharged(o)
	i.stop()
	second := testkit.FakeKafka(t)
	other := []string{"BILLING_KAFKA_BROKERS=" + second.Brokers}
	w.with(other, "topics", "apply", "--partitions", "3")
	w.refusesToStart(other, 1, "the Kafka cluster of BILLING_KAFKA_BROKERS", "billing topics accept")
	w.start().stop()

	out := w.with(other, "topics", "accept").out // Kafka was replaced on purpose
	require.Contains(t, out, "accepted Kafka cluster")
	require.Contains(t, out, "accepted "+w.main+" as it was created again: group "+w.group+" begins with its first record")
	w.start(other...)
	again := w.newOrder()
	second.Produce(o.record(w.main), again.record(w.main))
	w.awaitCharged(again)
	w.chargedOnce(o, again)
	w.refusesToStart(nil, 1, "the Kafka cluster of BILLING_KAFKA_BROKERS")
}

// An acceptance changes what running instances rely on.
func TestAcceptIsRefusedWhileInstancesRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	i.awaitReady()
	w.await(func() bool { return i.metric("billing_partition_paused", `topic="`+w.main+`"`) == 0 && i.joined() }, "it reads")
	next := []string{"BILLING_TOPIC=" + w.main + ".v2"}
	w.with(next, "topics", "apply", "--partitions", "3")
	c := w.run(next, "topics", "accept")
	require.Equal(t, 1, c.code, c.out)
	require.Contains(t, c.err, "group "+w.group+" has 1 members: stop all instances first")
	i.stop()
	w.with(next, "topics", "accept")
	w.with(nil, "topics", "accept")
}

// joined reports whether the instance shows partitions of the main topic.
func (i *instance) joined() bool {
	i.w.t.Helper()
	_, text := i.call(http.MethodGet, "/metrics", "", "")
	return strings.Contains(string(text), `billing_partition_paused{partition="0",reason="",topic="`+i.w.main+`"}`)
}

// H30: dead letters of the main topic before would be on no list any more.
func TestRenameIsRefusedWhileDeadLettersWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	bad := w.newOrder().record(w.main)
	bad.Value = []byte("no order")
	w.kafka.Produce(bad)
	w.await(func() bool { return i.unresolved() == 1 }, "the dead letter is listed")
	i.stop()
	next := []string{"BILLING_TOPIC=" + w.main + ".v2"}
	w.with(next, "topics", "apply", "--partitions", "3")
	c := w.run(next, "topics", "accept")
	require.Equal(t, 1, c.code, c.out)
	require.Contains(t, c.err, "1 dead letters wait in "+w.dlq)
}

// H29: a topic that would delete orders before they are handled refuses the start.
func TestLossyTopicRefusesTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_RETRY_DELAYS=1s,2h")
	set := func(topic, entry, value string) {
		res, err := w.kafka.Admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: entry, Value: &value}}, topic)
		require.NoError(t, err)
		require.NoError(t, res[0].Err)
	}
	w.start().stop()
	set(w.tiers[1], "retention.ms", strconv.Itoa(int(time.Hour.Milliseconds())))
	w.refusesToStart(nil, 1, w.tiers[1], "retention.ms=3600000", "its delay of 2h0m0s", "266400000", "BILLING_LONGEST_OUTAGE")
	set(w.tiers[1], "retention.ms", strconv.Itoa(int(3*time.Hour.Milliseconds())))
	i := w.start() // it waits long enough for what is due, and not for an outage: told, not refused
	require.Contains(t, i.log.text(), w.tiers[1]+": retention.ms 10800000, want 266400000")
	i.stop()
	for _, topic := range []string{w.main, w.tiers[0], w.dlq} {
		set(topic, "cleanup.policy", "compact")
		w.refusesToStart(nil, 1, topic, "cleanup.policy=compact")
		set(topic, "cleanup.policy", "delete")
	}
	w.start().stop()
}

// Partitions that are added while the service runs are read, of the main topic and of a tier; those of a tier that had none
// before are used by the next order that fails.
func TestPartitionsAddedWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	grown, err := w.kafka.Admin.UpdatePartitions(t.Context(), 5, w.main, w.tiers[0])
	require.NoError(t, err)
	require.NoError(t, grown.Error())
	w.await(func() bool {
		_, text := i.call(http.MethodGet, "/metrics", "", "")
		return strings.Contains(string(text), `billing_partition_paused{partition="4",reason="",topic="`+w.main+`"}`) &&
			strings.Contains(string(text), `billing_partition_paused{partition="4",reason="",topic="`+w.tiers[0]+`"}`)
	}, "the new partitions are assigned")
	w.kafka.Client.PurgeTopicsFromClient(w.main)
	stop := w.keepOthersComing()
	failing := w.newOrders(30)
	for _, o := range failing {
		w.provider.script(o, refuses(500, "later"))
		w.produce(o)
		w.await(func() bool { return len(w.provider.requestsOf(o)) > 0 }, "order %s is tried", o.id)
	}
	others := stop()
	added := w.newOrders(2)
	elsewhere, err := kgo.NewClient(append(w.kafka.Client.Opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	require.NoError(t, err)
	defer elsewhere.Close()
	for n, topic := range []string{w.main, w.tiers[0]} {
		r := added[n].record(topic)
		r.Partition = 4
		require.NoError(t, elsewhere.ProduceSync(t.Context(), r).FirstErr())
	}
	w.awaitCharged(append(failing, added...)...)
	others = append(others, added[0])
	w.chargedOnce(append(others, failing...)...)
	w.chargedOnce(added[1])
	w.settled()
}
