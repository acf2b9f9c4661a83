package e2e

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// turn turns the operator's switch and expects 200.
func (i *instance) turn(to, reason string) {
	i.w.t.Helper()
	status, body := i.call(http.MethodPost, "/admin/consumption/"+to, operatorToken, `{"reason": "`+reason+`"}`)
	require.Equal(i.w.t, http.StatusOK, status, "%s", body)
}

// requestsAfter counts the POSTs that came after the instant.
func (p *provider) requestsAfter(at time.Time) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rs := range p.requests {
		for _, r := range rs {
			if r.at.After(at) {
				n++
			}
		}
	}
	return n
}

// An operator's pause stops all instances, also one that starts later: nothing is charged, nothing dies, no attempt is
// counted. What was under way ends, and all goes on when it is over (H20).
func TestPauseStopsEveryInstance(t *testing.T) {
	t.Parallel()
	const slots = 4
	w := newWorld(t, "BILLING_CONCURRENCY=4")
	w.provider.always(late(200*time.Millisecond, moneyMoves))
	first, second := w.start(), w.start()
	first.awaitShare()
	second.awaitShare()
	orders := w.newOrders(100)
	w.produce(orders...)
	w.await(func() bool { requests, _ := w.provider.total(); return requests > 10 }, "charges are under way")

	first.turn("pause", "the provider moves")
	answered := time.Now()
	w.await(func() bool {
		return first.metric("billing_inflight", "")+second.metric("billing_inflight", "") == 0
	}, "what was under way has ended")
	require.LessOrEqual(t, w.provider.requestsAfter(answered), 2*slots, "only what had been claimed")
	first.awaitHeld("operator_pause by olga since ")
	second.awaitHeld("operator_pause by olga since ")
	_, reasons := second.ready()
	require.Contains(t, reasons, ": the provider moves")
	require.InDelta(t, 1, second.metric("billing_hold", `reason="operator_pause"`), 0)

	requests, _ := w.provider.total()
	require.Less(t, requests, len(orders))
	during := w.newOrders(20)
	w.produce(during...)
	w.kafka.Produce(&kgo.Record{Topic: w.main, Value: []byte("no order")})
	third := w.start()
	third.awaitHeld("operator_pause")
	third.awaitShare()
	first.turn("pause", "once more")
	require.Zero(t, first.unresolved(), "the admin API answers")
	w.nowhere()
	stillThere, _ := w.provider.total()
	require.Equal(t, requests, stillThere)

	third.turn("resume", "it has moved")
	w.awaitCharged(append(orders, during...)...)
	for _, i := range []*instance{first, second, third} {
		i.awaitReady()
	}
	require.EqualValues(t, 1, w.settled().Dead)
	w.chargedOnce(append(orders, during...)...)
	for _, tier := range w.tiers {
		require.Zero(t, w.kafka.Count(tier))
	}
}

// link is one instance's way to the provider.
type link struct {
	w      *world
	addr   string
	server *http.Server
}

func newLink(w *world) *link {
	w.t.Helper()
	l := &link{w: w, addr: "127.0.0.1:0"}
	l.up()
	w.t.Cleanup(l.down)
	return l
}

func (l *link) up() {
	l.w.t.Helper()
	listener, err := net.Listen("tcp4", l.addr)
	require.NoError(l.w.t, err)
	to, err := url.Parse(l.w.provider.url())
	require.NoError(l.w.t, err)
	l.addr = listener.Addr().String()
	l.server = &http.Server{Handler: httputil.NewSingleHostReverseProxy(to), ReadHeaderTimeout: 10 * time.Second}
	go func(s *http.Server) { _ = s.Serve(listener) }(l.server) // ends with down
}

func (l *link) down() { _ = l.server.Close() } // twice does no harm

// One instance cannot reach the provider, the other can: it leaves its partitions to the other, and all are charged. It
// comes back by itself, works again when it can, leaves again when it cannot, and stops in order while it is out (H20).
func TestAnInstanceThatIsHeldAloneLeavesTheGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_LEAVE_AFTER=2s")
	way := newLink(w)
	way.down()
	alone, well := w.start("BILLING_PROVIDER_URL=http://"+way.addr), w.start()
	alone.awaitShare()
	well.awaitShare()
	stop := w.keepOthersComing()
	orders := w.newOrders(30)
	w.produce(orders...)
	awaitOut := func() {
		t.Helper()
		w.await(func() bool {
			_, reasons := alone.ready()
			return strings.Contains(reasons, ": provider_down; alone, so it has left the consumer groups")
		}, "it leaves the groups")
	}
	awaitOut()
	require.Zero(t, alone.unresolved(), "the admin API answers")
	w.awaitCharged(orders...)

	way.up()
	alone.awaitReady()
	charged := func() float64 { return alone.metric("billing_messages_total", `outcome="charged"`) }
	w.await(func() bool { return charged() > 0 }, "it charges again")

	way.down()
	awaitOut()
	alone.stop()
	require.Equal(t, 1, w.count(`SELECT count(*) FROM instances WHERE held = 'provider_down'`), "it leaves word of what held it")
	all := append(orders, stop()...)
	w.chargedOnce(all...)
	require.Zero(t, w.settled().Dead)
	well.awaitReady()
	well.stop()
	require.Nil(t, well.log.find("held alone: left the consumer groups to the others"))
}
