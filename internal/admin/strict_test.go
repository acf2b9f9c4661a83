package admin_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/retry"
)

const approver = "approver-token-0123456"

// Each of these was answered with "replayed": 1.
func TestADryRunThatIsNotClearSendsNothing(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	for _, query := range []string{
		"dry_run=true%", "dry_run", "dry_run=", "dry_run=false&dry_run=true", "dry_run=true&dry_run=true", "target_topic=" + w.ladder.Main() + ";dry_run=true", "dry_run=true;",
		"dry_run=True", "dry_run=1", "Dry_run=true", "dry_run=true&", "&dry_run=true", "dry_run%00=true", "dry_run=true%20", "dry-run=true", "%=true", "target_topic=",
	} {
		r := w.call(operator, http.MethodPost, w.replayPath()+"?"+query, "")
		require.Equal(t, http.StatusBadRequest, r.status, "%s: %s", query, r.body)
		if strings.Contains(query, "dry_run=") {
			require.Regexp(t, `dry_run.*want true or false|target_topic|known: target_topic, dry_run`, r.json(t)["detail"], query)
		}
	}
	require.Zero(t, w.kafka.Count(w.ladder.Main())+w.kafka.Count(w.ladder.Tiers()[0].Topic))
	require.Len(t, w.get(w.messages() + "?state=open").json(t)["data"], 1)
}

// The description has each route and each of its parameters. None of them takes another one, or one of its own that is
// empty, stands twice or cannot be parsed.
func TestNoRouteTakesWhatItDoesNotKnow(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	paths := strings.NewReplacer("{dlq_topic}", w.ladder.DeadLetters(), "{partition}", "0", "{offset}", "0", "{order_id}", uuid.NewString())
	tried := 0
	for path, methods := range described()["paths"].(map[string]any) {
		if !strings.HasPrefix(path, "/admin") {
			continue
		}
		for method, operation := range methods.(map[string]any) {
			bad := []string{"unknown=1", "unknown", "%", "a;b=1", "=1", "&"}
			parameters, _ := operation.(map[string]any)["parameters"].([]any)
			for _, p := range parameters {
				if p := p.(map[string]any); p["in"] == "query" {
					name := p["name"].(string)
					bad = append(bad, name, name+"=", name+"=%", name+"=%zz", strings.ToUpper(name)+"=1", name+"=1&"+name+"=1", name+"=1;")
				}
			}
			for _, query := range bad {
				r := w.call(approver, strings.ToUpper(method), paths.Replace(path)+"?"+query, `{"reason": "x"}`)
				require.Equal(t, http.StatusBadRequest, r.status, "%s %s?%s: %s", method, path, query, r.body)
				tried++
			}
		}
	}
	require.Greater(t, tried, 100)
	require.Zero(t, w.kafka.Count(w.ladder.Tiers()[0].Topic), "nothing was replayed")
}

// A value that filters nothing is no filter: these listed everything.
func TestAListIsNeverMoreThanWasAskedFor(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	for query, want := range map[string]string{
		"state=%": "want open", "state=all": "want open", "order_id=" + uuid.Nil.String(): "want a UUID", "from=0001-01-01T00:00:00Z": "want a time", "to=0001-01-01T00:00:00Z": "want a time",
		"from=2026-01-02T15:04:05Z&to=2026-01-02T15:04:05Z": "not before to", "limit=+5": "want a number", "limit=%2B5": "want a number", "limit=05": "want a number", "cursor=aWQ6MQ==": "next_cursor",
	} {
		r := w.get(w.messages() + "?" + query)
		require.Equal(t, http.StatusBadRequest, r.status, query)
		require.Contains(t, r.json(t)["detail"], want, query)
	}
	require.Equal(t, http.StatusBadRequest, w.get("/admin/orders/"+uuid.Nil.String()).status)
}

func TestABodyIsReadStrictly(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	for body, want := range map[string]string{
		`{"reason": "x", "max": null}`:                                                 `"max" is null`,
		`{"reason": "x", "max": 1, "max": 2}`:                                          `"max" is there twice`,
		`{"reason": "x", "m\u0061x": 1, "max": 2}`:                                     `"max" is there twice`,
		`{"reason": "x", "MAX": 1}`:                                                    `"MAX" is not a known field`,
		`{"reason": "x", "Reason": "y"}`:                                               `"Reason" is not a known field`,
		`{"reason": "x", "max": "1"}`:                                                  `"max" is not a whole number`,
		`{"reason": "x", "max": 1.5}`:                                                  `"max" is not a whole number`,
		`{"reason": "x", "max": 99999999999999999999}`:                                 `"max" is not a whole number`,
		`{"reason": 7}`:                                                                `"reason" is not a string`,
		`{"reason": "x", "while_held": "yes"}`:                                         `"while_held" is not true or false`,
		`{"reason": "x", "messages": {}}`:                                              `"messages" is not a list`,
		`{"reason": "x", "messages": [7]}`:                                             `"messages.0" is not an object`,
		`{"reason": "x", "messages": [null]}`:                                          `"messages.0" is null`,
		`{"reason": "x", "messages": [{"partition": 0, "offset": null}]}`:              `"messages.0.offset" is null`,
		`{"reason": "x", "messages": [{"partition": 0, "offset": -1}]}`:                `messages.0: want`,
		`{"reason": "x", "messages": [{"partition": 4294967296, "offset": 0}]}`:        `"messages.0.partition" is not a whole number`,
		`{"reason": "x", "messages": [{"partition": 0, "offset": 0, "Offset": 1}]}`:    `"messages.0.Offset" is not a known field`,
		`{"reason": "x", "messages": [{"partition": 0, "partition": 1, "offset": 0}]}`: `"messages.0.partition" is there twice`,
		`{"reason": "x"} x`:                                                            `not one JSON object`,
		`{"reason": "x"`:                                                               `not one JSON object`,
		"{\"reason\": \"\xff\"}":                                                       `not one JSON object`,
		`[]`:                                                                           `the body is not an object`,
		"\n":                                                                           `not one JSON object`,
	} {
		r := w.call(operator, http.MethodPost, w.replayPath(), body)
		require.Equal(t, http.StatusBadRequest, r.status, "%s: %s", body, r.body)
		require.Contains(t, r.json(t)["detail"], want, body)
		require.NotRegexp(t, `Go |int32|int64|struct|admin\.|unmarshal`, r.json(t)["detail"], body)
	}
	require.Len(t, w.get(w.messages() + "?state=open").json(t)["data"], 1, "nothing was replayed")
}

func TestAnIdempotencyKeyIsOneText(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	for name, headers := range map[string]string{
		"empty": "Idempotency-Key: ", "of spaces": "Idempotency-Key:    ", "twice": "Idempotency-Key: a\r\nIdempotency-Key: a", "no ASCII": "Idempotency-Key: schlüssel", "too long": "Idempotency-Key: " + strings.Repeat("k", 256),
		"of two words": "Idempotency-Key: a b",
	} {
		status, body := w.raw(t, http.MethodPost, w.replayPath(), "Authorization: Bearer "+operator, "Content-Length: 0", headers)
		require.Equal(t, http.StatusBadRequest, status, name)
		require.Contains(t, body, "Idempotency-Key", name)
	}
	require.Zero(t, w.kafka.Count(w.ladder.Tiers()[0].Topic))
}

// Of two, the first won in silence: a proxy that checks the last one lets a call through that another person makes.
func TestAHeaderThatMustBeOneIsOne(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	for name, headers := range map[string][]string{
		"Authorization":   {"Authorization: Bearer " + operator, "Authorization: Bearer " + viewer},
		"Idempotency-Key": {"Authorization: Bearer " + operator, "Idempotency-Key: a", "idempotency-key: b"},
		"Content-Type":    {"Authorization: Bearer " + operator, "Content-Type: application/json", "Content-Type: text/plain"},
	} {
		for method, path := range map[string]string{http.MethodPost: w.replayPath(), http.MethodGet: "/admin/dlq"} {
			status, body := w.raw(t, method, path, append(headers, "Content-Length: 0")...)
			require.Equal(t, http.StatusBadRequest, status, name)
			require.Contains(t, body, name+" stands twice")
		}
	}
	status, body := w.raw(t, http.MethodGet, "/readyz", "Authorization: ", "Authorization: Bearer "+viewer)
	require.Equal(t, http.StatusBadRequest, status, body)
	require.Zero(t, w.kafka.Count(w.ladder.Tiers()[0].Topic))
}

// Who announces too much is told before sending any of it.
func TestABodyThatIsAnnouncedTooLargeIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t).serve()
	conn := w.dial(t)
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n{", w.replayPath(), operator, 1<<20+1)
	require.NoError(t, err)
	answer := make([]byte, 12)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 413", string(answer))
}

// A viewer sees our own headers and those that the setting names; an operator what the payload may hold, too; nobody a
// credential.
func TestHeadersOfProducersAreNotForEverybody(t *testing.T) {
	headers := []string{"authorization", "Bearer abc", "customer-id", "c-4711", "contact", "joe@example.com", "shop", "eu", "x-session-token", "t0"}
	shown := func(w *world, token string) (names []string, hidden any) {
		record := w.call(token, http.MethodGet, w.messages()+"/0/0", "").json(t)["record"].(map[string]any)
		for _, h := range record["headers"].([]any) {
			if name := h.(map[string]any)["name"].(string); !retry.Ours(name) {
				names = append(names, name)
			}
		}
		return names, record["hidden_headers"]
	}
	w := newWorld(t).serve()
	w.die(uuid.New(), 1, headers...)
	names, hidden := shown(w, viewer)
	require.Empty(t, names)
	require.EqualValues(t, 5, hidden)
	require.NotRegexp(t, "abc|4711|joe|t0", string(w.get(w.messages()+"/0/0").body))
	names, hidden = shown(w, operator)
	require.ElementsMatch(t, []string{"customer-id", "contact", "shop"}, names)
	require.EqualValues(t, 2, hidden)

	w.cfg.ShowHeaders = []string{"Shop", "x-session-token"}
	w.serve()
	names, _ = shown(w, viewer)
	require.ElementsMatch(t, []string{"shop", "x-session-token"}, names)
}

func TestNothingIsSentWhileTheLineIsHeld(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1)
	refused := func(why string) {
		t.Helper()
		r := w.call(operator, http.MethodPost, w.replayPath(), "", "Idempotency-Key", "once")
		require.Equal(t, http.StatusConflict, r.status)
		require.Contains(t, r.json(t)["detail"], why)
		require.Contains(t, r.json(t)["detail"], "while_held")
		dry := w.call(operator, http.MethodPost, w.replayPath()+"?dry_run=true", "").json(t)
		require.Equal(t, []any{1.0, why}, []any{dry["replayed"], dry["held"]})
	}
	w.held.Store(failure.ProviderDown)
	refused("provider_down")
	w.held.Store(failure.Reason(""))
	require.Equal(t, 200, w.call(operator, http.MethodPost, pausePath, `{"reason": "a look first"}`).status)
	refused("operator_pause")
	require.Zero(t, w.kafka.Count(w.ladder.Tiers()[0].Topic))
	r := w.call(operator, http.MethodPost, w.replayPath(), `{"reason": "they shall wait in the tier", "while_held": true}`)
	require.EqualValues(t, 1, r.json(t)["replayed"])
	require.Equal(t, 200, w.call(operator, http.MethodPost, resumePath, `{"reason": "seen"}`).status)
	require.Equal(t, 200, w.call(operator, http.MethodPost, w.replayPath(), "", "Idempotency-Key", "once").status, "the refused call left its key free")
}

// What goes beyond the usual bounds is an approver's decision, and stands in the trail.
func TestAnApproverLiftsCeilingAndAge(t *testing.T) {
	w := newWorld(t).serve()
	w.die(uuid.New(), 1, retry.HeaderReplayCount, "5", retry.HeaderReplayID, uuid.NewString())
	for _, field := range []string{"over_ceiling", "lift_age"} {
		r := w.call(operator, http.MethodPost, w.replayPath(), `{"reason": "x", "`+field+`": true}`)
		require.Equal(t, http.StatusForbidden, r.status, field)
		require.Contains(t, r.json(t)["detail"], "approver")
	}
	r := w.call(operator, http.MethodPost, w.replayPath(), "").json(t)
	require.Equal(t, map[string]any{"replay_ceiling": 1.0}, r["skipped_reasons"])
	r = w.call(approver, http.MethodPost, w.replayPath(), `{"reason": "the cause is gone", "over_ceiling": true, "messages": [{"partition": 0, "offset": 0}]}`).json(t)
	require.EqualValues(t, 1, r["replayed"])
	entry := w.get("/admin/audit?actor=anna").json(t)["data"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"over_ceiling"}, entry["target"].(map[string]any)["decided"])
}
