package e2e

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/testkit"
)

// newFaultyWorld is a world whose broker can be told to fail.
func newFaultyWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	return newWorldOn(t, testkit.FakeKafka(t), settings...)
}

// refusePublish lets the broker refuse everything that is published to the topic.
func (w *world) refusePublish(topic string) *kfake.FaultHandle {
	return w.kafka.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
}

func (w *world) awaitFault(fault *kfake.FaultHandle) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	require.NoError(w.t, fault.Wait(ctx, 1), "the broker was asked")
}

// crowd is more orders than any breaker's run.
const crowd = 20

// awaitProbed waits until the held line has tried some more messages in vain.
func (i *instance) awaitProbed() {
	i.w.t.Helper()
	before := i.metric("billing_messages_total", `outcome="held"`)
	i.w.await(func() bool { return i.metric("billing_messages_total", `outcome="held"`) >= before+3 }, "probes")
}

// An expired API key is nobody's own fault: no order leaves the main topic, no attempt is counted, and all are charged
// within seconds when the key is right again.
func TestWrongCredentialsHoldTheLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	w.provider.always(refuses(401, "key_expired"))
	orders := w.newOrders(crowd)
	w.produce(orders...)
	i.awaitHeld("provider_unauthorized")
	i.awaitProbed()
	w.nowhere()
	require.Empty(t, w.kafka.Committed(w.group, w.main), "no offset has moved")
	status, _ := i.call("GET", "/healthz", "", "")
	require.Equal(t, 200, status, "held is not dead: nobody should restart it")
	require.Zero(t, i.unresolved(), "the admin API answers meanwhile")

	w.provider.always(moneyMoves)
	w.awaitCharged(orders...)
	i.awaitReady()
	w.settled()
	w.chargedOnce(orders...)
	w.nowhere()
}

// A provider that is down walks no backlog through the ladder: what fails before the breaker opens waits in the first retry
// topic, the rest stays where it is.
func TestProviderDownHoldsTheLine(t *testing.T) {
	for _, c := range []struct {
		name        string
		break_, fix func(*provider)
	}{
		{"refused", (*provider).down, (*provider).up},
		{"503", func(p *provider) { p.always(refuses(503, "")) }, func(p *provider) { p.always(moneyMoves) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			i := w.start()
			c.break_(w.provider)
			orders := w.newOrders(crowd)
			w.produce(orders...)
			i.awaitHeld("provider_down")
			i.awaitProbed()
			require.LessOrEqual(t, w.kafka.Count(w.tiers[0]), 4, "counted before the breaker opened")
			require.Zero(t, w.kafka.Count(w.tiers[1])+w.kafka.Count(w.tiers[2])+w.kafka.Count(w.dlq))

			c.fix(w.provider)
			w.awaitCharged(orders...)
			i.awaitReady()
			w.settled()
			w.chargedOnce(orders...)
			require.Zero(t, w.kafka.Count(w.dlq))
		})
	}
}

// One order's 403 among others that fare well is its own affair: it dies alone, and nobody else waits (H10).
func TestOneForbiddenOrderHoldsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	stop := w.keepOthersComing()
	o := w.newOrder()
	w.provider.stick(o, refuses(403, "customer_blocked"))
	original := w.produce(o)[0]
	letter := w.awaitOne(w.dlq, o)
	w.standsFor(letter, original)
	require.Equal(t, []string{"rejected", "provider_unauthorized"}, []string{header(letter, "x-error-class"), header(letter, "x-error-reason")})
	i.awaitReady()
	w.chargedOnce(stop()...)
	require.EqualValues(t, 1, w.settled().Dead)
	require.Zero(t, w.kafka.Count(w.tiers[0]))
}

// An address that does not speak TLS is wrong for everyone; under the plain table the message is retried.
func TestBrokenTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings["BILLING_PROVIDER_URL"] = "https://" + w.provider.addr
	i := w.start()
	o := w.newOrder()
	w.produce(o)
	i.awaitHeld("provider_tls")
	w.nowhere()
	i.stop()

	plain := w.start("BILLING_FAULT_POLICY=document")
	require.Equal(t, "provider_tls", header(w.awaitOne(w.tiers[0], o), "x-error-reason"))
	require.Equal(t, "retry_wait", w.row(o).State)
	plain.stop()
	w.start("BILLING_PROVIDER_URL=" + w.provider.url())
	w.awaitCharged(o)
	w.chargedOnce(o)
	w.settled()
}

// elsewhere runs a statement about the world's database in another one.
func (w *world) elsewhere(statement string) {
	w.t.Helper()
	u, err := url.Parse(w.db.URL)
	require.NoError(w.t, err)
	u.Path = "/postgres"
	conn, err := pgx.Connect(w.t.Context(), u.String())
	require.NoError(w.t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(w.t.Context(), statement)
	require.NoError(w.t, err)
}

// database changes a setting of the world's database and ends the service's sessions, so that it meets it.
func (w *world) database(setting string) {
	w.t.Helper()
	name := w.db.Pool.Config().ConnConfig.Database
	w.elsewhere("ALTER DATABASE " + name + " " + setting)
	w.elsewhere("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "' AND application_name = 'billing'")
}

// A database that is gone, or that was demoted, is no order's fault.
func TestDatabaseFaultsHoldTheLine(t *testing.T) {
	for _, c := range []struct{ name, break_, fix, reason string }{
		{"gone", "ALLOW_CONNECTIONS false", "ALLOW_CONNECTIONS true", "database_down"},
		{"read-only", "SET default_transaction_read_only = on", "SET default_transaction_read_only = off", "database_read_only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			i := w.start()
			warm := w.newOrder()
			w.produce(warm)
			w.awaitCharged(warm)
			w.settled()
			offsets := w.kafka.Committed(w.group, w.main)

			w.database(c.break_)
			orders := w.newOrders(crowd)
			w.produce(orders...)
			i.awaitHeld(c.reason)
			i.awaitProbed()
			w.nowhere()
			require.Equal(t, offsets, w.kafka.Committed(w.group, w.main), "no offset has moved")
			requests, _ := w.provider.total()
			require.Equal(t, 1, requests, "nothing is sent that could not be written down")

			w.database(c.fix)
			w.awaitCharged(orders...)
			i.awaitReady()
			w.settled()
			w.chargedOnce(append(orders, warm)...)
			w.nowhere()
		})
	}
}

// The broker refuses the retry record: the message's fate is not durable, so its offset stays, and it is handled again.
func TestRefusedRetryPublishMovesNoOffset(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t)
	i := w.start()
	fault := w.refusePublish(w.tiers[0])
	o := w.newOrder()
	w.provider.stick(o, moneyMovesThen(refuses(500, "")))
	w.produce(o)
	i.awaitHeld("broker_down")
	w.awaitFault(fault)
	i.awaitProbed()
	require.Empty(t, w.kafka.Committed(w.group, w.main), "no offset has moved")
	w.nowhere()

	fault.Remove()
	retried := w.awaitOne(w.tiers[0], o)
	require.Equal(t, "1", header(retried, "x-retry-attempt"), "what could not be written is not counted")
	w.provider.cure(o)
	w.awaitCharged(o)
	i.awaitReady()
	w.settled()
	w.chargedOnce(o)
}

// The whole broker goes away in the middle of charges and comes back.
func TestBrokerOutage(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t, "BILLING_CONCURRENCY=4")
	i := w.start()
	w.provider.always(late(crowdLatency, moneyMoves))
	orders := w.newOrders(300)
	w.produce(orders...)
	w.await(func() bool { return w.charged(orders) >= 50 }, "50 are charged")
	w.kafka.Down()
	w.await(func() bool { ok, reasons := i.ready(); return !ok && strings.Contains(reasons, "broker: ") }, "not ready")
	w.kafka.Up()
	w.awaitCharged(orders...)
	i.awaitReady()
	w.settled()
	w.chargedOnce(orders...)
	w.nowhere()
}

// A coordinator that moves, as in any restart of a broker: whoever asks it for offsets is sent away for a while, and that
// is all. (In librdkafka 2.14 it can end the process, and leave partitions unread for ever.)
func TestMovingCoordinator(t *testing.T) {
	t.Parallel()
	w := newFaultyWorld(t)
	fault := w.kafka.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.NotCoordinator, Count: 30})
	w.start()
	w.await(func() bool { return fault.Hits() == 30 }, "all who ask were sent away")
	os := w.newOrders(20) // on all partitions
	w.provider.script(os[0], refuses(500, ""))
	w.produce(os...)
	w.awaitCharged(os...)
	w.settled()
	w.chargedOnce(os...)
}
