package admin_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/retry"
)

func TestTopicsWithWhatIsAtRisk(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	w.die(uuid.New(), 2, retry.HeaderErrorReason, "provider_timeout", retry.HeaderErrorClass, "unknown")
	topic := w.get("/admin/dlq").json(t)["data"].([]any)[0].(map[string]any)
	require.Equal(t, w.ladder.DeadLetters(), topic["topic"])
	require.EqualValues(t, 2, topic["unresolved"])
	require.Equal(t, map[string]any{"provider_5xx": 1.0, "provider_timeout": 1.0}, topic["by_reason"])
	require.Equal(t, []any{map[string]any{"amount": "299.80", "currency": "EUR"}}, topic["amount_at_risk"])
}

func TestListsArePagedAndFiltered(t *testing.T) {
	w := newWorld(t).serve()
	order := uuid.New()
	for i := range 5 {
		w.die(uuid.New(), int64(i))
	}
	w.die(order, 5, retry.HeaderErrorReason, "not_json", retry.HeaderErrorClass, "invalid")

	var offsets []float64
	next := ""
	for pages := 0; pages == 0 || next != ""; pages++ {
		query := "?limit=2"
		if next != "" {
			query += "&cursor=" + next
		}
		r := w.get(w.messages() + query).json(t)
		for _, m := range r["data"].([]any) {
			offsets = append(offsets, m.(map[string]any)["offset"].(float64))
		}
		next, _ = r["next_cursor"].(string)
	}
	require.Equal(t, []float64{5, 4, 3, 2, 1, 0}, offsets, "newest first, each once")

	for query, want := range map[string]int{
		"state=open": 6, "state=dropped": 0, "reason=not_json": 1, "class=exhausted": 5, "order_id=" + order.String(): 1,
		"from=2020-01-02T15:04:05Z": 6, "state=duplicate": 0, "to=2020-01-02T15:04:05%2B02:00": 0, "limit=500": 6,
	} {
		require.Len(t, w.get(w.messages() + "?" + query).json(t)["data"], want, query)
	}
	for _, query := range []string{"state=closed", "reason=made_up", "class=x", "order_id=12", "order_id={" + order.String() + "}", "from=yesterday", "limit=0", "limit=501", "limit=x", "cursor=abc", "cursor=aWQ6LTE", "stat=open"} {
		r := w.get(w.messages() + "?" + query)
		require.Equal(t, http.StatusBadRequest, r.status, query)
		name, _, _ := strings.Cut(query, "=")
		require.Contains(t, r.json(t)["detail"], name)
	}
	require.Equal(t, http.StatusBadRequest, w.get("/admin/audit?actor=a%00b").status)
}

func TestAPayloadIsForOperatorsAndLeavesATrace(t *testing.T) {
	w := newWorld(t).serve()
	order := uuid.New()
	w.die(order, 7, "blob", "\xff\x00")
	path := w.messages() + "/0/0"

	record := w.get(path).json(t)["record"].(map[string]any)
	require.NotContains(t, record, "value")
	require.NotContains(t, record, "key")
	require.Contains(t, record["headers"], map[string]any{"name": retry.HeaderErrorReason, "text": "provider_5xx"})
	require.Empty(t, w.get("/admin/audit").json(t)["data"])

	shown := w.call(operator, http.MethodGet, path, "").json(t)
	record = shown["record"].(map[string]any)
	require.Equal(t, map[string]any{"text": `{"order_id":"` + order.String() + `"}`}, record["value"])
	require.Contains(t, record["headers"], map[string]any{"name": "blob", "base64": "/wA="})
	require.Equal(t, "149.90", shown["amount"])
	require.Equal(t, map[string]any{"topic": w.ladder.Main(), "partition": 0.0, "offset": 7.0, "timestamp": nil}, shown["origin"])
	entry := w.get("/admin/audit?actor=oscar").json(t)["data"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"oscar", "operator", "dlq.read", "shown"}, []any{entry["actor"], entry["role"], entry["action"], entry["outcome"]})
	require.Equal(t, map[string]any{"topic": w.ladder.DeadLetters(), "partition": 0.0, "offset": 0.0}, entry["target"])
	require.NotContains(t, w.log.String(), order.String(), "no payload in the log")
}

func TestTheDocumentsReplayCallHasNoBody(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	w.die(uuid.New(), 2, retry.HeaderErrorReason, "declined", retry.HeaderErrorClass, "declined")
	r := w.call(operator, http.MethodPost, w.replayPath()+"?target_topic="+url.QueryEscape(w.ladder.Main()), "")
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	require.JSONEq(t, `{"replayed": 1, "skipped": 1, "skipped_reasons": {"declined": 1}, "target_topic": "`+w.ladder.Main()+`", "dry_run": false}`, string(r.body))
	require.Equal(t, 1, w.kafka.Count(w.ladder.Main()))
	for _, e := range w.get("/admin/audit").json(t)["data"].([]any) {
		require.Equal(t, "not given", e.(map[string]any)["reason"])
	}
}

func TestADryRunSendsNothing(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	r := w.call(operator, http.MethodPost, w.replayPath()+"?dry_run=true", `{"reason": "look first", "max": 10}`).json(t)
	require.Equal(t, []any{1.0, true}, []any{r["replayed"], r["dry_run"]})
	require.Zero(t, w.kafka.Count(w.ladder.Tiers()[0].Topic))
	require.Len(t, w.get(w.messages() + "?state=open").json(t)["data"], 1)
}

func TestReplayOfNamedMessages(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	w.die(uuid.New(), 2)
	r := w.call(operator, http.MethodPost, w.replayPath(), `{"reason": "provider is back", "messages": [{"partition": 0, "offset": 1}, {"partition": 0, "offset": 9}]}`).json(t)
	require.Equal(t, []any{1.0, map[string]any{"not_found": 1.0}, w.ladder.Tiers()[0].Topic}, []any{r["replayed"], r["skipped_reasons"], r["target_topic"]})
	require.Len(t, w.get(w.messages() + "?state=open").json(t)["data"], 1)
}

func TestAReplayThatIsNotClearIsRefused(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	for body, want := range map[string]int{
		`{}`:                 422,
		`null`:               400,
		"  ":                 400,
		`{"reason": "  "}`:   422,
		`{"reason": "a\nb"}`: 422,
		`{"reason": "` + strings.Repeat("x", 501) + `"}`:              422,
		`{"reason": "x", "messages": []}`:                             422,
		`{"reason": "x", "messages": null}`:                           400,
		`{"reason": "x", "max": 0}`:                                   422,
		`{"reason": "x", "messages": [{"offset": 0}]}`:                400,
		`{"reason": "x", "messages": [{"partition": 0, "ofset": 0}]}`: 400,
		`{"reason": "x", "mesages": [{"partition": 0, "offset": 0}]}`: 400,
		`{"reason": "x", "filter": {"class": "unknown"}}`:             400,
		`{"reason": "x"} {"reason": "y"}`:                             400,
		`{"reason": 7}`:                                               400,
		`[`:                                                           400,
		`{"reason": "` + strings.Repeat("x", 1<<20) + `"}`:            413,
	} {
		r := w.call(operator, http.MethodPost, w.replayPath(), body)
		require.Equal(t, want, r.status, "%.80s: %s", body, r.body)
	}
	r := w.call(operator, http.MethodPost, w.replayPath()+"?target_topic=elsewhere", "")
	require.Equal(t, http.StatusUnprocessableEntity, r.status)
	require.Equal(t, []any{w.ladder.Tiers()[0].Topic, w.ladder.Main()}, r.json(t)["allowed"])
	for _, query := range []string{"dry_run=yes", "target_topc=x"} {
		require.Equal(t, http.StatusBadRequest, w.call(operator, http.MethodPost, w.replayPath()+"?"+query, "").status, query)
	}
	require.Len(t, w.get(w.messages() + "?state=open").json(t)["data"], 1, "nothing was replayed")
}

func TestTheSameCallUnderTheSameKeyIsDoneOnce(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	const body = `{"reason": "provider is back"}`
	first := w.call(operator, http.MethodPost, w.replayPath(), body, "Idempotency-Key", "k1")
	require.EqualValues(t, 1, first.json(t)["replayed"])
	require.Empty(t, first.header.Get("Idempotent-Replayed"))

	w.die(uuid.New(), 2) // a second replay would take it
	again := w.call(operator, http.MethodPost, w.replayPath(), body, "Idempotency-Key", "k1")
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Len(t, w.get(w.messages() + "?state=open").json(t)["data"], 1)

	require.Equal(t, 422, w.call(operator, http.MethodPost, w.replayPath(), `{"reason": "another"}`, "Idempotency-Key", "k1").status)
	require.Equal(t, 400, w.call(operator, http.MethodPost, w.replayPath(), body, "Idempotency-Key", strings.Repeat("k", 256)).status)

	refused := w.call(operator, http.MethodPost, w.replayPath()+"?target_topic=elsewhere", body, "Idempotency-Key", "k2")
	require.Equal(t, 422, refused.status)
	_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO admin_requests SELECT actor, 'k3', request_hash, now() + interval '1 hour' FROM admin_requests WHERE key = 'k1'`)
	require.NoError(t, err)
	require.Equal(t, 409, w.call(operator, http.MethodPost, w.replayPath(), body, "Idempotency-Key", "k3").status, "another call runs under it")
	_, err = w.db.Pool.Exec(t.Context(), `UPDATE admin_requests SET running_until = now() - interval '1 second' WHERE key = 'k3'`)
	require.NoError(t, err)
	require.Equal(t, 200, w.call(operator, http.MethodPost, w.replayPath(), body, "Idempotency-Key", "k3").status, "the other one died")
}

func TestOneOfManyEqualCallsIsDone(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	var all sync.WaitGroup
	statuses := make([]int, 10)
	for i := range statuses {
		all.Go(func() {
			statuses[i] = w.call(operator, http.MethodPost, w.replayPath(), `{"reason": "x"}`, "Idempotency-Key", "same").status
		})
	}
	all.Wait()
	require.Contains(t, statuses, 200)
	require.Subset(t, []int{200, 409}, statuses)
	require.Equal(t, 1, w.kafka.Count(w.ladder.Tiers()[0].Topic))
	require.Len(t, w.get("/admin/audit").json(t)["data"], 2, "started and done")
}

func TestExplainAnOrder(t *testing.T) {
	w := newWorld(t).serve()
	order, topicID := uuid.New(), uuid.New()
	require.Equal(t, http.StatusNotFound, w.get("/admin/orders/"+order.String()).status)
	require.Equal(t, http.StatusBadRequest, w.get("/admin/orders/12").status)
	_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO charges (order_id, event_id, customer_id, amount_minor, currency, fingerprint, idempotency_key, provider_account, state,
			origin_topic_id, origin_partition, origin_offset) VALUES ($1, $1, $1, 14990, 'EUR', sha256('x'), $1, 'acme', 'unknown', $2, 0, 7)`, order, topicID)
	require.NoError(t, err)
	_, err = w.db.Pool.Exec(t.Context(), `INSERT INTO charge_attempts (order_id, generation, attempt, claim_id, kind, started_at, finished_at, reason, http_status)
		VALUES ($1, 1, 1, $1, 'charge', now() - interval '1 s', now(), 'provider_5xx', 503)`, order)
	require.NoError(t, err)
	_, err = w.db.Pool.Exec(t.Context(), `INSERT INTO record_fates (topic_id, partition, "offset", order_id, fate) VALUES ($1, 0, 7, $2, 'dead')`, topicID, order)
	require.NoError(t, err)
	w.die(order, 7)

	v := w.get("/admin/orders/" + order.String()).json(t)
	charge := v["charge"].(map[string]any)
	require.Equal(t, []any{"unknown", "149.90", "EUR"}, []any{charge["state"], charge["amount"], charge["currency"]})
	require.EqualValues(t, 503, v["attempts"].([]any)[0].(map[string]any)["http_status"])
	require.Equal(t, "dead", v["records"].([]any)[0].(map[string]any)["fate"])
	require.Len(t, v["dead_letters"], 1)
}
