package e2e

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

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

// One order's 403 among others that fare well holds nobody, and is no proof that it is the order's own: one of the
// provider's nodes may be sick. It takes the ladder, counted, and dies alone (H10, H34).
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
	require.Equal(t, "4", header(letter, "x-retry-attempt"))
	require.Equal(t, []string{"rejected", "provider_unauthorized"}, []string{header(letter, "x-error-class"), header(letter, "x-error-reason")})
	i.awaitReady()
	w.chargedOnce(stop()...)
	require.EqualValues(t, 1, w.settled().Dead)
	for _, tier := range w.tiers {
		require.Equal(t, 1, w.kafka.Count(tier))
	}
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
