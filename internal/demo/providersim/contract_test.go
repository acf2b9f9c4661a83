package providersim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestAKeyChargesOnce(t *testing.T) {
	w := newWorld(t, Config{})
	a := newAsk()
	first := w.post(a)
	require.Equal(t, http.StatusCreated, first.status)
	require.Empty(t, first.header.Get("Idempotent-Replayed"))
	require.JSONEq(t, `{"id":"ch_1","reference":"`+a.reference+`","amount":"149.90","currency":"EUR","status":"succeeded","created_at":"2026-01-02T15:04:05.123Z"}`, string(first.body))

	again := w.post(a)
	require.Equal(t, http.StatusOK, again.status)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(t, string(first.body), string(again.body))
	require.Equal(t, 1, w.moved(a.reference))

	for _, other := range []ask{
		{key: a.key, reference: uuid.NewString(), customer: a.customer},
		{key: a.key, reference: a.reference, customer: uuid.NewString()},
		{key: a.key, reference: a.reference, customer: a.customer, body: strings.Replace(a.text(), "149.90", "149.91", 1)},
		{key: a.key, reference: a.reference, customer: a.customer, body: strings.Replace(a.text(), "EUR", "USD", 1)},
	} {
		r := w.post(other)
		require.Equal(t, http.StatusUnprocessableEntity, r.status)
		require.Equal(t, "idempotency_key_reused", r.code(t))
	}

	a.key = uuid.NewString()
	require.Equal(t, http.StatusCreated, w.post(a).status)
	require.Equal(t, 2, w.moved(a.reference), "the ledger shows what another key does")
	require.Equal(t, 1, w.sim.Summary().Double)
}

func TestAKeyIsForgottenAfterItsTime(t *testing.T) {
	w := newWorld(t, Config{KeyTTL: time.Hour})
	a := newAsk()
	require.Equal(t, http.StatusCreated, w.post(a).status)
	w.clock.add(time.Hour)
	require.Equal(t, http.StatusOK, w.post(a).status)
	w.clock.add(time.Nanosecond)
	require.Equal(t, http.StatusCreated, w.post(a).status)
	require.Equal(t, 2, w.moved(a.reference))
}

func TestAKeyInUse(t *testing.T) {
	w := newWorld(t, Config{Latency: time.Hour})
	a := newAsk()
	first := make(chan reply, 1)
	go func() { first <- w.post(a) }()
	taken := func() bool {
		w.sim.book.mu.Lock()
		defer w.sim.book.mu.Unlock()
		return w.sim.book.keys[a.key] != nil
	}
	require.Eventually(t, taken, 5*time.Second, time.Millisecond)
	r := w.post(a)
	require.Equal(t, http.StatusConflict, r.status)
	require.Equal(t, "idempotency_key_in_use", r.code(t))
	w.sim.Close() // ends the wait
	require.Equal(t, http.StatusCreated, (<-first).status)
	require.Equal(t, 1, w.moved(a.reference))
	require.Equal(t, int64(2), w.sim.Summary().PeakInflight)
}

func TestOneOfManyWins(t *testing.T) {
	w := newWorld(t, Config{})
	a := newAsk()
	var all sync.WaitGroup
	created := make(chan string, 20)
	for range 20 {
		all.Go(func() {
			if r := w.post(a); r.status == http.StatusCreated {
				created <- r.charge(t).ID
			}
		})
	}
	all.Wait()
	require.Len(t, created, 1)
	require.Equal(t, 1, w.moved(a.reference))
}

func TestADeclineIsFinalForItsKey(t *testing.T) {
	w := newWorld(t, Config{})
	require.NoError(t, w.sim.SetMode(Decline, time.Time{}))
	a := newAsk()
	r := w.post(a)
	require.Equal(t, http.StatusPaymentRequired, r.status)
	require.Equal(t, "card_declined", r.code(t))
	require.NoError(t, w.sim.SetMode(OK, time.Time{}))
	require.Equal(t, http.StatusPaymentRequired, w.post(a).status)
	require.Zero(t, w.moved(a.reference))
	a.key = uuid.NewString()
	require.Equal(t, http.StatusCreated, w.post(a).status)
}

// Each of these breaks the contract in one point, and moves no money.
func TestTheFormIsStrict(t *testing.T) {
	w := newWorld(t, Config{Token: "secret"})
	good := newAsk()
	good.header.Set("Authorization", "Bearer secret")
	body := func(old, other string) func(*ask) {
		return func(a *ask) {
			require.Contains(t, a.text(), old)
			a.body = strings.Replace(a.text(), old, other, 1)
		}
	}
	header := func(name string, values ...string) func(*ask) { return func(a *ask) { a.header[name] = values } }
	for name, test := range map[string]struct {
		change func(*ask)
		status int
		code   string
	}{
		"no token":            {header("Authorization"), 401, "unauthorized"},
		"wrong token":         {header("Authorization", "Bearer x"), 401, "unauthorized"},
		"token without word":  {header("Authorization", "secret"), 401, "unauthorized"},
		"no content type":     {header("Content-Type"), 415, "unsupported_media_type"},
		"other content type":  {header("Content-Type", "text/plain"), 415, "unsupported_media_type"},
		"no key":              {header("Idempotency-Key"), 400, "invalid_idempotency_key"},
		"two keys":            {header("Idempotency-Key", "a", "b"), 400, "invalid_idempotency_key"},
		"key with space":      {header("Idempotency-Key", "a b"), 400, "invalid_idempotency_key"},
		"key too long":        {header("Idempotency-Key", strings.Repeat("k", 256)), 400, "invalid_idempotency_key"},
		"too large":           {body(`{`, `{`+strings.Repeat(" ", maxBody)), 413, "too_large"},
		"not JSON":            {body(`{`, `<`), 400, "invalid_request"},
		"two values":          {body(`}`, `}{}`), 400, "invalid_request"},
		"unknown member":      {body(`{`, `{"extra":"1",`), 400, "invalid_request"},
		"missing member":      {body(`,"currency":"EUR"`, ``), 400, "invalid_request"},
		"upper-case member":   {body(`"amount"`, `"Amount"`), 400, "invalid_request"},
		"null":                {body(`"EUR"`, `null`), 400, "invalid_request"},
		"amount as number":    {body(`"149.90"`, `149.90`), 400, "invalid_request"},
		"amount too short":    {body(`149.90`, `149.9`), 400, "invalid_request"},
		"amount too long":     {body(`149.90`, `149.900`), 400, "invalid_request"},
		"amount zero":         {body(`149.90`, `0.00`), 400, "invalid_request"},
		"amount negative":     {body(`149.90`, `-149.90`), 400, "invalid_request"},
		"amount exponent":     {body(`149.90`, `1e2`), 400, "invalid_request"},
		"yen with fractions":  {body(`EUR`, `JPY`), 400, "invalid_request"},
		"currency unknown":    {body(`EUR`, `XXQ`), 400, "invalid_request"},
		"currency lower case": {body(`EUR`, `eur`), 400, "invalid_request"},
		"reference no UUID":   {body(good.reference, `order-7`), 400, "invalid_request"},
		"reference in braces": {body(good.reference, `{`+good.reference+`}`), 400, "invalid_request"},
		"reference capital":   {body(good.reference, strings.ToUpper(good.reference)), 400, "invalid_request"},
		"customer empty":      {body(good.customer, ``), 400, "invalid_request"},
	} {
		a := good
		a.header = good.header.Clone()
		test.change(&a)
		r := w.post(a)
		require.Equal(t, test.status, r.status, name)
		require.Equal(t, test.code, r.code(t), name)
	}
	require.Zero(t, w.sim.Summary().Charged)
	good.header.Set("Content-Type", "application/json; charset=utf-8")
	require.Equal(t, http.StatusCreated, w.post(good).status)
	require.Equal(t, http.StatusUnauthorized, w.get("/v1/charges?reference="+good.reference).status)
	require.Equal(t, http.StatusOK, w.get("/healthz").status, "health asks for no token")
}

func TestLookUpByReferenceAndID(t *testing.T) {
	w := newWorld(t, Config{})
	a := newAsk()
	require.JSONEq(t, `{"data":[],"consistent":true}`, string(w.get("/v1/charges?reference="+a.reference).body))
	c := strings.TrimSpace(string(w.post(a).body))
	require.JSONEq(t, `{"data":[`+c+`],"consistent":true}`, string(w.get("/v1/charges?reference="+a.reference).body))
	require.JSONEq(t, c, string(w.get("/v1/charges/ch_1").body))
	for _, id := range []string{"ch_0", "ch_2", "ch_01", "ch_+1", "ch_", "1", "x"} {
		require.Equal(t, http.StatusNotFound, w.get("/v1/charges/"+id).status, id)
	}
	require.Equal(t, http.StatusBadRequest, w.get("/v1/charges").status)
	require.Equal(t, http.StatusNotFound, w.get("/v2/charges").status)
}

func TestALookUpThatLagsSaysSo(t *testing.T) {
	w := newWorld(t, Config{LookupLag: time.Minute})
	a := newAsk()
	w.post(a)
	require.JSONEq(t, `{"data":[],"consistent":false}`, string(w.get("/v1/charges?reference="+a.reference).body))
	w.clock.add(time.Minute)
	require.Contains(t, string(w.get("/v1/charges?reference="+a.reference).body), `"ch_1"`)
}

func TestListingPagesThroughASpanOfTime(t *testing.T) {
	w := newWorld(t, Config{})
	start := w.clock.Now()
	for range 25 {
		require.Equal(t, http.StatusCreated, w.post(newAsk()).status)
		w.clock.add(time.Second)
	}
	type page struct {
		Data []Charge `json:"data"`
		Next *string  `json:"next_cursor"`
	}
	list := func(from, to time.Time, more string) page {
		r := w.get("/v1/charges?from=" + url.QueryEscape(from.Format(time.RFC3339Nano)) + "&to=" + url.QueryEscape(to.Format(time.RFC3339Nano)) + more)
		require.Equal(t, http.StatusOK, r.status, "%s", r.body)
		var p page
		require.NoError(t, json.Unmarshal(r.body, &p))
		return p
	}
	from, to := start.Add(5*time.Second).Truncate(time.Millisecond), start.Add(20*time.Second).Truncate(time.Millisecond)
	var ids []string
	p := list(from, to, "&limit=4")
	for {
		for _, c := range p.Data {
			ids = append(ids, c.ID)
		}
		if p.Next == nil {
			break
		}
		w.post(newAsk()) // what comes later disturbs no page
		p = list(from, to, "&limit=4&cursor="+*p.Next)
	}
	var want []string
	for i := 6; i <= 20; i++ {
		want = append(want, fmt.Sprintf("ch_%d", i))
	}
	require.Equal(t, want, ids, "from is taken in, to is not")
	require.Empty(t, list(to, from, "").Data)

	good := "/v1/charges?from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z"
	for _, bad := range []string{
		"/v1/charges?from=x&to=2027-01-01T00:00:00Z", "/v1/charges?from=2026-01-01T00:00:00Z&to=", "/v1/charges?from=2026-01-01T00:00:00Z",
		good + "&limit=0", good + "&limit=1001", good + "&limit=x", good + "&cursor=!", good + "&cursor=LTE",
	} {
		require.Equal(t, http.StatusBadRequest, w.get(bad).status, bad)
	}
}
