package providersim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Each kind is seen by a client as it says, and moves money or does not, and the same key then tells the truth.
func TestKinds(t *testing.T) {
	kinds := map[Kind]struct {
		status int // 0: no answer
		moved  int
	}{
		Status503: {503, 0}, Status500: {500, 0}, Status429: {429, 0}, Status400: {400, 0}, Status401: {401, 0}, Status404: {404, 0},
		Redirect: {302, 0}, ResetBefore: {0, 0}, Decline: {402, 0},
		Status500After: {500, 1}, ResetAfter: {0, 1}, Garbage: {200, 1}, Truncated: {201, 1}, OtherAmount: {201, 1}, Slow: {201, 1},
	}
	for kind, want := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t, Config{SlowFor: 10 * time.Millisecond})
			require.NoError(t, w.sim.SetMode(kind, time.Time{}))
			a := newAsk()
			r := w.post(a)
			require.Equal(t, want.status, r.status)
			require.Equal(t, want.moved, w.moved(a.reference))
			switch kind {
			case ResetBefore, ResetAfter:
				require.ErrorIs(t, r.err, syscall.ECONNRESET)
			case Truncated:
				require.ErrorIs(t, r.err, io.ErrUnexpectedEOF)
			case Garbage:
				require.Contains(t, string(r.body), "<html>")
			case OtherAmount:
				require.Equal(t, "1149.90", r.charge(t).Amount)
			case Status503, Status429:
				require.Equal(t, "1", r.header.Get("Retry-After"))
				require.NotEmpty(t, r.code(t))
			case Redirect:
				require.Equal(t, "/healthz", r.header.Get("Location"))
			}
			require.NoError(t, w.sim.SetMode(OK, time.Time{}))
			again := map[int]int{0: http.StatusCreated, 1: http.StatusOK}[want.moved]
			if kind == Decline {
				again = http.StatusPaymentRequired
			}
			require.Equal(t, again, w.post(a).status)
		})
	}
	require.Len(t, kinds, len(Kinds())-3, "but for the three that hang")
}

func TestHanging(t *testing.T) {
	for kind, moved := range map[Kind]int{Hang: 0, HangAfter: 1} {
		w := newWorld(t, Config{})
		require.NoError(t, w.sim.SetMode(kind, time.Time{}))
		a := newAsk()
		w.postAndGiveUp(a)
		require.Equal(t, moved, w.moved(a.reference))
	}
}

// A client that gave up is charged all the same: money moves late.
func TestSlowMovesMoneyAfterTheClientHasGone(t *testing.T) {
	w := newWorld(t, Config{SlowFor: time.Hour})
	require.NoError(t, w.sim.SetMode(Slow, time.Time{}))
	a := newAsk()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/charges", strings.NewReader(a.text()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", a.key)
	require.ErrorIs(t, do(req).err, context.DeadlineExceeded)
	require.Zero(t, w.moved(a.reference))
	w.sim.Close() // the work ends at once
	require.Eventually(t, func() bool { return w.moved(a.reference) == 1 }, 5*time.Second, time.Millisecond)
}

func TestAModeIsForAWhileAndForEverything(t *testing.T) {
	w := newWorld(t, Config{Token: "secret"})
	control := func(body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/_control", strings.NewReader(body))
		require.NoError(t, err)
		r := do(req)
		require.NoError(t, r.err)
		return r.status
	}
	require.Equal(t, http.StatusNoContent, control(`{"mode":"503","for":"30s"}`))
	for _, path := range []string{"/healthz", "/v1/charges?reference=x", "/elsewhere"} {
		require.Equal(t, http.StatusServiceUnavailable, w.get(path).status, path)
	}
	require.Equal(t, http.StatusServiceUnavailable, w.post(newAsk()).status, "before the token is asked for")
	require.Equal(t, http.StatusOK, w.get("/_ledger/summary").status)
	w.clock.add(30 * time.Second)
	require.Equal(t, http.StatusOK, w.get("/healthz").status)

	require.Equal(t, http.StatusNoContent, control(`{"mode":"404"}`))
	w.clock.add(1000 * time.Hour)
	require.Equal(t, http.StatusNotFound, w.get("/healthz").status)
	require.Equal(t, http.StatusNoContent, control(`{"mode":"ok"}`))
	require.Equal(t, http.StatusOK, w.get("/healthz").status)

	for _, bad := range []string{``, `{}`, `{"mode":"sometimes"}`, `{"mode":"503","for":"soon"}`} {
		require.Equal(t, http.StatusBadRequest, control(bad), bad)
	}
}

// The n-th request of an order meets the same fate in every run, and shares are what they say.
func TestFatesFollowFromTheSeed(t *testing.T) {
	rules, err := ParseRules("500after=0.05, 429=0.10,503@2=0.2,402@*=0.1,")
	require.NoError(t, err)
	require.Equal(t, []Rule{{Status500After, 0.05, 0}, {Status429, 0.10, 0}, {Status503, 0.2, 2}, {Decline, 0.1, EveryRequest}}, rules)
	p, err := newPlan(7, rules)
	require.NoError(t, err)
	other, err := newPlan(8, rules)
	require.NoError(t, err)

	const orders = 20000
	firsts, differ := map[Kind]int{}, 0
	for i := range orders {
		reference := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)).String()
		first := p.fate(reference, 1)
		require.Equal(t, first, p.fate(reference, 1))
		firsts[first]++
		if first != other.fate(reference, 1) {
			differ++
		}
		switch first {
		case Decline:
			require.Equal(t, Decline, p.fate(reference, 50))
		case Status503:
			require.Equal(t, Status503, p.fate(reference, 2))
			require.Equal(t, OK, p.fate(reference, 3))
		}
	}
	for kind, share := range map[Kind]float64{Status503: 0.2, Decline: 0.1, Status500After: 0.7 * 0.05, Status429: 0.7 * 0.10, OK: 0.7 * 0.85} {
		require.InDelta(t, share, float64(firsts[kind])/orders, 0.01, kind)
	}
	require.Greater(t, differ, orders/5, "another seed, other fates")
}

func TestRulesAtWork(t *testing.T) {
	w := newWorld(t, Config{Rules: []Rule{{Status503, 1, 2}}})
	a := newAsk()
	var seen []int
	for range 4 {
		seen = append(seen, w.post(a).status)
	}
	require.Equal(t, []int{503, 503, 201, 200}, seen)
	e := w.sim.Ledger()[0]
	require.Equal(t, Entry{a.reference, 4, 1, w.clock.Now(), w.clock.Now(), "149.90", "EUR"}, e)
	s := w.sim.Summary()
	require.Equal(t, map[string]int64{"503": 2, "201": 1, "200": 1}, s.Statuses)
	require.Equal(t, []int64{4, 1, 1, 0}, []int64{s.Requests, int64(s.Charged), s.Replays, s.Inflight})
	require.Equal(t, fmt.Sprintf("%s\t1\t%d\t149.90\tEUR\t%[2]d\n", a.reference, w.clock.Now().UnixNano()), string(w.get("/_ledger/all").body))
	require.Contains(t, string(w.get("/_ledger/summary").body), `"charged":1,"double":0`)
}

func TestWrongSettings(t *testing.T) {
	for _, text := range []string{"503", "503=", "503=x", "503@=0.1", "503@0=0.1", "503@-1=0.1", "503@x=0.1"} {
		_, err := ParseRules(text)
		require.Error(t, err, text)
	}
	for _, text := range []string{"oops=0.1", "ok=0.1", "503=1.1", "503=-0.1", "503=NaN", "503=0.6,429=0.6", "503@1=0.6,402@*=0.6"} {
		rules, err := ParseRules(text)
		require.NoError(t, err, text)
		_, err = New(Config{Rules: rules})
		require.Error(t, err, text)
	}
	_, err := New(Config{Latency: -1})
	require.Error(t, err)
	_, err = New(Config{Rules: []Rule{{Status503, 0.1, -2}}})
	require.Error(t, err)
	sim, err := New(Config{})
	require.NoError(t, err)
	require.Error(t, sim.SetMode("oops", time.Time{}))
}
