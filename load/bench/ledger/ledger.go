// Package ledger is the judge of the benchmark: a billing provider that does as little as possible for each request and
// counts how often money moved for each order, whatever the program that is measured believes.
//
// It keeps as much of the provider's contract as the service relies on. It is no simulator: internal/demo/providersim is.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Config says how the provider behaves.
type Config struct {
	Latency   time.Duration // of each charge
	FailEvery int           // each n-th order's first request is answered 503; 0: none
	Refuse    float64       // share of the requests that is answered 429, at random
	Takes     float64       // charges a second, at most a tenth of that at once; what is more is answered 429; 0: any number
}

// Order is what happened to one order.
type Order struct {
	Reference     string
	Charges       int       // more than 1: charged twice
	ChargedAt     time.Time // the first time
	Requests      int
	FirstAnswered time.Time
	SecondAsked   time.Time

	amount, currency string
	keys             []string
}

// Summary is the ledger in short.
type Summary struct {
	Orders      int // seen
	Charged     int // orders, once or more
	Twice       int
	Requests    int
	Refused     int       // of the requests, by 429
	First, Last time.Time // charge
}

// Ledger is the provider.
type Ledger struct {
	cfg   Config
	takes *rate.Limiter

	mu      sync.Mutex
	orders  map[string]*Order
	summary Summary
}

// New makes an empty ledger.
func New(cfg Config) *Ledger {
	l := &Ledger{cfg: cfg, takes: rate.NewLimiter(rate.Inf, 0), orders: map[string]*Order{}}
	if cfg.Takes > 0 {
		l.takes = rate.NewLimiter(rate.Limit(cfg.Takes), max(1, int(cfg.Takes/10)))
	}
	return l
}

// Handler serves the provider's API and the ledger's own pages, which Client reads.
func (l *Ledger) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", l.charge)
	mux.HandleFunc("GET /v1/charges", l.find)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /ledger/summary", func(w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = json.NewEncoder(w).Encode(l.summary) // the reader has gone; there is nobody to tell
	})
	mux.HandleFunc("GET /ledger/orders", func(w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		out := json.NewEncoder(w)
		for _, o := range l.orders {
			_ = out.Encode(o)
		}
	})
	return mux
}

type request struct{ Reference, Amount, Currency string }

func (r request) check(key string) error {
	if key == "" || r.Reference == "" || r.Amount == "" || r.Currency == "" {
		return errors.New("want an Idempotency-Key, reference, amount and currency")
	}
	return nil
}

func (l *Ledger) charge(w http.ResponseWriter, r *http.Request) {
	var in request
	key := r.Header.Get("Idempotency-Key")
	err := json.NewDecoder(r.Body).Decode(&in)
	if err == nil {
		err = in.check(key)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if l.refuses() {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	fail := l.arrived(in)
	if l.cfg.Latency > 0 {
		<-time.After(l.cfg.Latency) // also when the client has gone: the provider has taken the request
	}
	if fail {
		http.Error(w, `{"status":503,"code":"unavailable"}`, http.StatusServiceUnavailable)
		l.answered(in.Reference)
		return
	}
	o, status := l.book(in.Reference, key)
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusOK {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(status)
	_, _ = w.Write(o.appendJSON(nil))
}

func (l *Ledger) refuses() bool {
	refused := rand.Float64() < l.cfg.Refuse || !l.takes.Allow()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.summary.Requests++
	if refused {
		l.summary.Refused++
	}
	return refused
}

// arrived notes the request and says whether it is to fail.
func (l *Ledger) arrived(in request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.orders[in.Reference]
	if o == nil {
		o = &Order{Reference: in.Reference, amount: in.Amount, currency: in.Currency}
		l.orders[in.Reference] = o
		l.summary.Orders++
	}
	if o.Requests++; o.Requests == 2 {
		o.SecondAsked = time.Now()
	}
	return o.Requests == 1 && l.cfg.FailEvery > 0 && l.summary.Orders%l.cfg.FailEvery == 0
}

func (l *Ledger) answered(reference string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders[reference].FirstAnswered = time.Now()
}

// book moves money, unless the key is known.
func (l *Ledger) book(reference, key string) (Order, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.orders[reference]
	if slices.Contains(o.keys, key) {
		return *o, http.StatusOK
	}
	o.keys = append(o.keys, key)
	now := time.Now()
	switch o.Charges++; o.Charges {
	case 1:
		o.ChargedAt = now
		l.summary.Charged++
		l.summary.Last = now
		if l.summary.First.IsZero() {
			l.summary.First = now
		}
	case 2:
		l.summary.Twice++
	}
	return *o, http.StatusCreated
}

func (o Order) appendJSON(b []byte) []byte {
	return fmt.Appendf(b, `{"id":"ch_%s","reference":"%s","amount":"%s","currency":"%s","status":"succeeded","created_at":"%s"}`,
		o.Reference, o.Reference, o.amount, o.currency, o.ChargedAt.UTC().Format("2006-01-02T15:04:05.000Z"))
}

func (l *Ledger) find(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	body := []byte(`{"data":[`)
	if o := l.orders[r.URL.Query().Get("reference")]; o != nil && o.Charges > 0 {
		body = o.appendJSON(body)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, `],"consistent":true}`...))
}
