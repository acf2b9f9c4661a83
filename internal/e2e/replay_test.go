package e2e

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// deadOrders are orders that the provider has rejected, and that it would take by now.
func (w *world) deadOrders(n int) []order {
	w.t.Helper()
	os := w.newOrders(n)
	for _, o := range os {
		w.provider.script(o, refuses(400, "unknown_customer"))
	}
	w.produce(os...)
	for _, o := range os {
		w.awaitOne(w.dlq, o)
	}
	return os
}

// The document's call: no body, all that is open. The orders are charged, each once, and the trail tells who did it.
func TestReplayOfAllThatIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	os := w.deadOrders(3)
	declined := w.newOrder()
	w.provider.stick(declined, refuses(402, "card_declined"))
	w.produce(declined)
	original := w.awaitOne(w.dlq, declined)
	require.NotNil(t, original)
	i.letters(4)
	require.Equal(t, 4, i.unresolved())

	require.Equal(t, replayed{Replayed: 3, Skipped: 1, TargetTopic: w.tiers[0]}, i.replay("", ""))
	w.awaitCharged(os...)
	w.chargedOnce(os...)
	for _, o := range os {
		requests := w.provider.requestsOf(o)
		require.Len(t, requests, 2)
		require.NotEqual(t, requests[0].key, requests[1].key, "the rejected key is used up: a new generation")
		require.Equal(t, 2, w.row(o).Generation)
		sent := w.awaitOne(w.tiers[0], o)
		require.Equal(t, o.value(), sent.Value)
		require.Equal(t, []string{"0", "1"}, []string{header(sent, "x-retry-attempt"), header(sent, "x-replay-count")})
		require.Empty(t, header(sent, "x-error"))
		events := w.resultsOf(o)
		w.await(func() bool { events = w.resultsOf(o); return len(events) == 2 }, "rejected, then charged")
		require.Equal(t, []int{1, 2}, []int{events[0].Version, events[1].Version})
	}
	require.Equal(t, 1, i.unresolved(), "a decline is another decision")
	require.Equal(t, replayed{Skipped: 1, TargetTopic: w.tiers[0]}, i.replay("", ""), "once")
	b := w.settled()
	require.EqualValues(t, 3, b.Charged)
	require.EqualValues(t, 1, b.Dead)

	var trail struct {
		Data []struct{ Actor, Action, Reason, Outcome string }
	}
	i.get("/admin/audit?actor=olga", &trail)
	require.Equal(t, []string{"olga", "dlq.replay", "not given", "done"}, []string{trail.Data[0].Actor, trail.Data[0].Action, trail.Data[0].Reason, trail.Data[0].Outcome})
}

// One message, to the main topic, with a reason; a second death of it is a letter of its own.
func TestReplayOfOneToTheMainTopic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	o := w.deadOrders(2)[0]
	w.provider.script(o, refuses(400, "still_unknown"))
	var at letter
	for _, l := range i.letters(2) {
		if *l.OrderID == o.id.String() {
			at = l
		}
	}
	place := `{"partition":` + strconv.Itoa(int(at.Partition)) + `,"offset":` + strconv.FormatInt(at.Offset, 10) + `}`
	one := `{"reason":"the customer is known now","messages":[` + place + `]}`
	require.Equal(t, replayed{Replayed: 1, TargetTopic: w.main}, i.replay("?target_topic="+w.main, one))
	w.await(func() bool { return len(w.tail.of(w.dlq, o.id.String())) == 2 }, "it died again")
	again := w.tail.of(w.dlq, o.id.String())[1]
	require.Equal(t, "1", header(again, "x-replay-count"))
	require.Equal(t, "1", header(again, "x-retry-attempt"))
	i.letters(3)

	require.Equal(t, 2, i.replay("", "").Replayed)
	w.awaitCharged(o)
	w.chargedOnceOf(o)
	require.Len(t, w.provider.requestsOf(o), 3)
}

func TestDeadLettersAreListedAndShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	o := w.deadOrders(1)[0]
	l := i.letters(1)[0]
	require.Equal(t, []string{"open", "rejected", "provider_bad_request", o.id.String(), "149.90", "EUR"},
		[]string{l.State, l.Class, l.Reason, *l.OrderID, *l.Amount, *l.Currency})
	require.Nil(t, l.DuplicateOf)

	path := "/admin/dlq/" + w.dlq + "/messages/" + strconv.Itoa(int(l.Partition)) + "/" + strconv.FormatInt(l.Offset, 10)
	var shown letter
	i.get(path, &shown)
	require.Equal(t, string(o.value()), (*shown.Record.Value)["text"])
	status, body := i.call(http.MethodGet, path, viewerToken, "")
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, string(body), marker, "a viewer sees no payload")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'dlq.read' AND actor = 'olga'`), "reading a payload is audited")
}

func TestReplayIsGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	w.deadOrders(1)
	i.letters(1)
	for _, c := range []struct {
		name, path, token, body string
		status                  int
	}{
		{"no token", "/replay", "", "", 401},
		{"wrong token", "/replay", "operator-token-0000000", "", 401},
		{"a viewer", "/replay", viewerToken, "", 403},
		{"a target that is no topic of ours", "/replay?target_topic=elsewhere", operatorToken, "", 422},
		{"a target that is not allowed", "/replay?target_topic=" + w.tiers[2], operatorToken, "", 422},
		{"the dead letters as target", "/replay?target_topic=" + w.dlq, operatorToken, "", 422},
		{"an empty reason", "/replay", operatorToken, `{"reason":" "}`, 422},
		{"a misspelt field", "/replay", operatorToken, `{"reason":"x","mesages":[]}`, 400},
		{"a misspelt parameter", "/replay?target=" + w.main, operatorToken, "", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := *i
			i.w = w.in(t)
			status, body := i.call(http.MethodPost, "/admin/dlq/"+w.dlq+c.path, c.token, c.body)
			require.Equal(t, c.status, status, "%s", body)
		})
	}
	status, _ := i.call(http.MethodPost, "/admin/dlq/"+w.main+"/replay", operatorToken, "")
	require.Equal(t, http.StatusNotFound, status, "another topic")
	require.Equal(t, 1, i.unresolved())
	require.Zero(t, w.kafka.Count(w.tiers[0]))

	closed := w.start("BILLING_ADMIN_TOKENS=")
	status, _ = closed.call(http.MethodGet, "/admin/dlq", operatorToken, "")
	require.Equal(t, http.StatusNotFound, status, "no credentials configured: no admin surface")
}

func TestDLQCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	o := w.deadOrders(1)[0]
	l := i.letters(1)[0]
	place := strconv.Itoa(int(l.Partition)) + "/" + strconv.FormatInt(l.Offset, 10)
	client := []string{"BILLING_ADMIN_URL=http://" + i.addr, "BILLING_ADMIN_TOKEN=" + operatorToken}

	listed := w.run(client, "dlq", "list")
	require.Zero(t, listed.code, listed.err)
	require.Contains(t, listed.out, o.id.String())
	require.Contains(t, listed.out, "provider_bad_request")
	shown := w.run(client, "dlq", "show", place)
	require.Zero(t, shown.code, shown.err)
	require.Contains(t, shown.out, marker)
	require.Equal(t, 2, w.run(client, "dlq", "replay", place, "--yes").code, "without a reason")
	done := w.run(client, "dlq", "replay", place, "--yes", "--reason", "the customer is known now")
	require.Zero(t, done.code, done.err)
	require.Contains(t, done.out, "replayed 1 to "+w.tiers[0])
	w.awaitCharged(o)
	w.chargedOnce(o)
	require.Equal(t, 1, w.run([]string{client[0], "BILLING_ADMIN_TOKEN=" + viewerToken}, "dlq", "replay", "--all", "--yes", "--reason", "x").code)
}
