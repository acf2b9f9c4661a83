package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// provider keeps the provider's contract as long as the test does not say otherwise: it moves money once for a key and
// remembers it. It keeps the one ledger that counts: how often money moved for an order.
type provider struct {
	t    *testing.T
	addr string

	mu         sync.Mutex
	server     *http.Server
	normal     answer              // for orders without a script
	scripts    map[string][]answer // by order, in turn
	stuck      map[string]answer   // by order, every time
	requests   map[string][]request
	lookups    map[string]int
	charges    map[string][]charge
	violations []string // of the contract, by the service
}

// request is one POST as it came.
type request struct {
	at          time.Time
	key         string
	body        string
	traceparent string
}

// charge is money that moved, as the contract writes it.
type charge struct {
	ID        string `json:"id"`
	Reference string `json:"reference"`
	Amount    string `json:"amount"`
	Currency  string `json:"currency"`
	Status    string `json:"status"`
	CreatedAt string `json:"created_at"`
	key       string
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{
		t: t, addr: "127.0.0.1:0", normal: moneyMoves, scripts: map[string][]answer{}, stuck: map[string]answer{},
		requests: map[string][]request{}, lookups: map[string]int{}, charges: map[string][]charge{},
	}
	p.up()
	t.Cleanup(func() {
		p.down()
		require.Empty(t, p.violations, "requests against the contract")
	})
	return p
}

func (p *provider) url() string { return "http://" + p.addr }

// up listens, after a down on the same address.
func (p *provider) up() {
	p.t.Helper()
	listener, err := net.Listen("tcp4", p.addr)
	require.NoError(p.t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", p.create)
	mux.HandleFunc("GET /v1/charges", p.list)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	p.mu.Lock()
	p.addr, p.server = listener.Addr().String(), server
	p.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // ends with down
}

// down refuses connections and breaks those that are open.
func (p *provider) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.server.Close() // twice does no harm
}

// always is what happens to orders without a script from now on.
func (p *provider) always(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.normal = a
}

// script is what happens to the next requests of the order, in turn.
func (p *provider) script(o order, as ...answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scripts[o.id.String()] = as
}

// stick is what happens to every request of the order until it is cured.
func (p *provider) stick(o order, a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck[o.id.String()] = a
}

func (p *provider) cure(o order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.stuck, o.id.String())
}

func (p *provider) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	x := &exchange{p: p, w: w, r: r, key: r.Header.Get("Idempotency-Key")}
	if err := x.read(body); err != nil {
		p.mu.Lock()
		p.violations = append(p.violations, err.Error())
		p.mu.Unlock()
		refuses(http.StatusBadRequest, "contract")(x)
		return
	}
	p.take(x, request{time.Now(), x.key, string(body), r.Header.Get("traceparent")})(x)
}

// take notes the request and picks its answer.
func (p *provider) take(x *exchange, r request) answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	order := x.asked.Reference
	p.requests[order] = append(p.requests[order], r)
	if a, ok := p.stuck[order]; ok {
		return a
	}
	if script := p.scripts[order]; len(script) > 0 {
		p.scripts[order] = script[1:]
		return script[0]
	}
	return p.normal
}

func (p *provider) list(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := r.URL.Query(); q.Has("from") {
		answerJSON(w, http.StatusOK, map[string]any{"data": p.between(q.Get("from"), q.Get("to")), "next_cursor": nil})
		return
	}
	reference := r.URL.Query().Get("reference")
	p.lookups[reference]++
	found := append([]charge{}, p.charges[reference]...)
	answerJSON(w, http.StatusOK, map[string]any{"data": found, "consistent": true})
}

// between are the charges made in [from, to), oldest first.
func (p *provider) between(from, to string) []charge {
	found := []charge{}
	begin, err1 := time.Parse(time.RFC3339, from)
	end, err2 := time.Parse(time.RFC3339, to)
	if err1 != nil || err2 != nil {
		p.violations = append(p.violations, "list from "+from+" to "+to)
	}
	for _, cs := range p.charges {
		for _, c := range cs {
			if at, _ := time.Parse(time.RFC3339, c.CreatedAt); !at.Before(begin) && at.Before(end) {
				found = append(found, c)
			}
		}
	}
	slices.SortFunc(found, func(a, b charge) int { return strings.Compare(a.CreatedAt, b.CreatedAt) })
	return found
}

// move moves the money, once for a key.
func (p *provider) move(x *exchange) (c charge, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.charges[x.asked.Reference] {
		if c.key == x.key {
			return c, true
		}
	}
	c = x.asked
	c.ID, c.Status, c.key = "ch_"+strings.ReplaceAll(uuid.NewString(), "-", ""), "succeeded", x.key
	c.CreatedAt = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	p.charges[c.Reference] = append(p.charges[c.Reference], c)
	return c, false
}

// requestsOf are the POSTs for the order so far.
func (p *provider) requestsOf(o order) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]request{}, p.requests[o.id.String()]...)
}

func (p *provider) lookupsOf(o order) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lookups[o.id.String()]
}

// chargesOf are what the order's customer paid.
func (p *provider) chargesOf(o order) []charge {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]charge{}, p.charges[o.id.String()]...)
}

// total is the number of requests, and that of orders that were charged.
func (p *provider) total() (requests, charged int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rs := range p.requests {
		requests += len(rs)
	}
	return requests, len(p.charges)
}

// keys are all idempotency keys that were ever sent.
func (p *provider) keys() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := map[string]bool{}
	for _, rs := range p.requests {
		for _, r := range rs {
			keys[r.key] = true
		}
	}
	return keys
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	if w.Header().Get("Content-Type") == "" { // else it is a problem
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have gone
}
