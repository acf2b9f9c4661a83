package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	pausePath  = "/admin/consumption/pause"
	resumePath = "/admin/consumption/resume"
)

func TestPauseAndResume(t *testing.T) {
	w := newWorld(t).serve()
	turn := func(path, reason string) map[string]any {
		t.Helper()
		r := w.call(operator, http.MethodPost, path, `{"reason": "`+reason+`"}`)
		require.Equal(t, http.StatusOK, r.status, "%s", r.body)
		return r.json(t)
	}
	first := turn(pausePath, "the provider moves")
	require.Equal(t, []any{true, "oscar", "the provider moves"}, []any{first["paused"], first["by"], first["reason"]})
	require.Equal(t, first, turn(pausePath, "again"), "it stays the first pause")
	running := map[string]any{"paused": false, "by": nil, "reason": nil, "since": nil}
	require.Equal(t, running, turn(resumePath, "it has moved"))
	require.Equal(t, running, turn(resumePath, "again"))

	var trail []string
	for _, e := range w.get("/admin/audit").json(t)["data"].([]any) {
		e := e.(map[string]any)
		trail = append(trail, strings.Join([]string{e["actor"].(string), e["action"].(string), e["outcome"].(string), e["reason"].(string)}, ", "))
	}
	require.Equal(t, []string{
		"oscar, consumption.resume, was not paused, again", "oscar, consumption.resume, resumed, it has moved",
		"oscar, consumption.pause, was paused, again", "oscar, consumption.pause, paused, the provider moves",
	}, trail)
}

func TestPauseUnderAKeyIsDoneOnce(t *testing.T) {
	w := newWorld(t).serve()
	const body = `{"reason": "the provider moves"}`
	first := w.call(operator, http.MethodPost, pausePath, body, "Idempotency-Key", "p1")
	again := w.call(operator, http.MethodPost, pausePath, body, "Idempotency-Key", "p1")
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Len(t, w.get("/admin/audit").json(t)["data"], 1)
	require.Equal(t, 422, w.call(operator, http.MethodPost, resumePath, body, "Idempotency-Key", "p1").status, "another call")
}

func TestWhoMayPauseAndWithWhichWords(t *testing.T) {
	w := newWorld(t).serve()
	for _, path := range []string{pausePath, resumePath} {
		require.Equal(t, 401, w.call("", http.MethodPost, path, `{"reason": "x"}`).status)
		require.Equal(t, 403, w.call(viewer, http.MethodPost, path, `{"reason": "x"}`).status)
		require.Equal(t, 405, w.call(operator, http.MethodGet, path, "").status)
		for body, want := range map[string]int{
			"": 422, `{}`: 422, `null`: 400, `{"reason": " "}`: 422, `{"reason": "a\u0000b"}`: 422, `{"reason": "` + strings.Repeat("x", 501) + `"}`: 422,
			`{"reason": "x", "for": "1h"}`: 400, `{"reason": 7}`: 400, `[`: 400, `{"reason": "x"} {}`: 400, `{"reason": "` + strings.Repeat("x", 1<<20) + `"}`: 413,
		} {
			require.Equal(t, want, w.call(operator, http.MethodPost, path, body).status, "%s %.40q", path, body)
		}
		require.Equal(t, 400, w.call(operator, http.MethodPost, path+"?all=true", `{"reason": "x"}`).status)
	}
	require.Empty(t, w.get("/admin/audit").json(t)["data"], "nothing was done")
}

// A person lets dead letters go that a flood withholds (H25). What fleet does with it is tested there.
func TestAccept(t *testing.T) {
	const path = "/admin/consumption/accept"
	w := newWorld(t).serve()
	const body = `{"reason": "looked at them", "reason_code": "not_json", "count": 40}`
	require.Equal(t, 401, w.call("", http.MethodPost, path, body).status)
	require.Equal(t, 403, w.call(viewer, http.MethodPost, path, body).status)
	require.Equal(t, 409, w.call(operator, http.MethodPost, path, body).status, "nothing is withheld")
	_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO dead_letter_flood DEFAULT VALUES`)
	require.NoError(t, err)
	for bad, want := range map[string]int{
		"": 422, `{}`: 422, `{"reason": "x", "reason_code": "not_json"}`: 422, `{"reason": "x", "reason_code": "not_json", "count": 0}`: 422,
		`{"reason": "x", "reason_code": "not_json", "count": -1}`: 422, `{"reason": "x", "reason_code": "all", "count": 1}`: 422,
		`{"reason": "x", "count": 1}`: 422, `{"reason_code": "not_json", "count": 1}`: 422, `{"reason": "x", "reason_code": "not_json", "count": 1.5}`: 400,
		`{"reason": "x", "reason_code": "not_json", "count": 1000001}`: 422, `{"reason": "x", "reason_code": "not_json", "count": 1, "all": true}`: 400,
	} {
		require.Equal(t, want, w.call(operator, http.MethodPost, path, bad).status, bad)
	}
	for _, remaining := range []float64{40, 80} {
		r := w.call(operator, http.MethodPost, path, body)
		require.Equal(t, http.StatusOK, r.status, "%s", r.body)
		require.Equal(t, map[string]any{"reason_code": "not_json", "remaining": remaining}, r.json(t))
	}
	entry := w.get("/admin/audit").json(t)["data"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"oscar", "consumption.accept", "accepted", "looked at them"}, []any{entry["actor"], entry["action"], entry["outcome"], entry["reason"]})
}
