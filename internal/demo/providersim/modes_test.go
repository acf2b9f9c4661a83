package providersim

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Each status can be had from everything, as the contract's problem and as a page of something in between.
func TestAnyStatusAsAMode(t *testing.T) {
	w := newWorld(t, Config{})
	for status := 300; status <= 599; status++ {
		a := newAsk()
		if Status(status) != Decline {
			require.NoError(t, w.sim.SetMode(Status(status), time.Time{}))
			r := w.post(a)
			require.Equal(t, status, r.status)
			if status != http.StatusFound && status != http.StatusNotModified { // these have no body
				require.NotEmpty(t, r.code(t))
			}
			require.Equal(t, status, w.get("/v1/charges?reference="+a.reference).status)
		}
		require.NoError(t, w.sim.SetMode(Page(status), time.Time{}))
		r := w.post(a)
		require.NoError(t, r.err)
		require.Equal(t, status, r.status)
		if status != http.StatusNotModified {
			require.Equal(t, "text/html; charset=utf-8", r.header.Get("Content-Type"))
		}
		require.Zero(t, w.moved(a.reference))
	}
	for _, k := range []Kind{"299", "600", "299-page", "page", "-page", "sick-", "sick-200", "sick-sick-401", "some-402", "limit-", "limit-0", "limit-x", "oops"} {
		require.Error(t, w.sim.SetMode(k, time.Time{}), k)
	}
	for _, k := range []Kind{Unsure, Sick(401), Some(429), Limit(5)} {
		_, err := New(Config{Rules: []Rule{{Kind: k, Share: 1}}})
		require.Error(t, err, "%s is no rule", k)
	}
}

func TestBusyHangsOnceForEachKey(t *testing.T) {
	w := newWorld(t, Config{})
	require.NoError(t, w.sim.SetMode(Busy, time.Time{}))
	a := newAsk()
	w.postAndGiveUp(a)
	for range 3 {
		r := w.post(a)
		require.Equal(t, http.StatusConflict, r.status)
		require.Equal(t, "idempotency_key_in_use", r.code(t))
	}
	require.Equal(t, http.StatusOK, w.get("/v1/charges?reference="+a.reference).status)
	require.Zero(t, w.moved(a.reference))
	require.NoError(t, w.sim.SetMode(OK, time.Time{}))
	require.Equal(t, http.StatusCreated, w.post(a).status)
}

func TestUnsureChargesAndDoesNotSaySo(t *testing.T) {
	w := newWorld(t, Config{})
	require.NoError(t, w.sim.SetMode(Unsure, time.Time{}))
	a := newAsk()
	require.Equal(t, http.StatusCreated, w.post(a).status)
	require.JSONEq(t, `{"data":[],"consistent":false}`, string(w.get("/v1/charges?reference="+a.reference).body))
	require.NoError(t, w.sim.SetMode(OK, time.Time{}))
	require.Contains(t, string(w.get("/v1/charges?reference="+a.reference).body), `"consistent":true`)
}

// A node is chosen with the connection: what a connection met once, it meets always.
func TestOneOfThreeNodesIsSick(t *testing.T) {
	w := newWorld(t, Config{})
	require.NoError(t, w.sim.SetMode(Sick(401), time.Time{}))
	const connections = 300
	sick := 0
	for range connections {
		transport := &http.Transport{MaxConnsPerHost: 1}
		statuses := map[int]bool{}
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/charges?reference=x", http.NoBody)
			require.NoError(t, err)
			res, err := transport.RoundTrip(req)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, res.Body)
			require.NoError(t, res.Body.Close())
			statuses[res.StatusCode] = true
		}
		transport.CloseIdleConnections()
		require.Len(t, statuses, 1)
		if statuses[http.StatusUnauthorized] {
			sick++
		}
	}
	require.InDelta(t, connections/3, sick, 50)
}

func TestSomeChargesAreRefused(t *testing.T) {
	w := newWorld(t, Config{})
	require.NoError(t, w.sim.SetMode(Some(429), time.Time{}))
	const asked = 1000
	refused := 0
	for i := range asked {
		a := newAsk()
		a.reference = uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)).String() // the same in every run
		switch w.post(a).status {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusCreated:
		default:
			require.Fail(t, "another status")
		}
	}
	require.InDelta(t, asked/100, refused, 5)
}

func TestARateLimitTakesItsRate(t *testing.T) {
	w := newWorld(t, Config{})
	require.NoError(t, w.sim.SetMode(Limit(50), time.Time{}))
	charged := 0
	for range 1000 { // of a second, as fast as the clock goes
		w.clock.add(10 * time.Millisecond)
		for range 2 {
			if w.post(newAsk()).status == http.StatusCreated {
				charged++
			}
		}
	}
	require.InDelta(t, 500, charged, 5, "ten seconds of 50")
}
