package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/torture/verdict"
)

// provider is the simulator, with every request written down beside its ledger.
type provider struct {
	addr   string
	sim    *providersim.Server
	server *http.Server

	mu       sync.Mutex
	requests []*verdict.Request
}

const (
	providerToken = "torture-provider-token"
	providerSlow  = 1500 * time.Millisecond // longer than the service waits
)

func startProvider(p plan) (*provider, error) {
	sim, err := providersim.New(providersim.Config{
		Token: providerToken, Latency: 5 * time.Millisecond, Jitter: 20 * time.Millisecond, SlowFor: providerSlow, Seed: p.seed, Rules: p.rules,
	})
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &provider{addr: listener.Addr().String(), sim: sim}
	v.server = &http.Server{Handler: v.tap(sim.Handler()), ReadHeaderTimeout: time.Minute}
	go func() { _ = v.server.Serve(listener) }() // ends with close
	return v, nil
}

func (v *provider) close() {
	v.sim.Close()
	_ = v.server.Close()
}

// tap writes a charge's request down when all of it is here, and its answer's status when there is one.
func (v *provider) tap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return // the connection broke in the middle of the request
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		note := v.note(r.Header.Get("Idempotency-Key"), body)
		next.ServeHTTP(&statusWriter{ResponseWriter: w, saw: func(status int) {
			v.mu.Lock()
			defer v.mu.Unlock()
			note.Status = status
		}}, r)
	})
}

func (v *provider) note(key string, body []byte) *verdict.Request {
	var asked struct{ Reference, Amount, Currency string }
	_ = json.Unmarshal(body, &asked) // what is no JSON has no reference, which the verdict shows
	n := &verdict.Request{At: time.Now(), Order: asked.Reference, Key: key, Amount: asked.Amount + " " + asked.Currency}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests = append(v.requests, n)
	return n
}

// taken are the requests so far.
func (v *provider) taken() []verdict.Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]verdict.Request, len(v.requests))
	for i, r := range v.requests {
		all[i] = *r
	}
	return all
}

// ledger is how often money moved.
func (v *provider) ledger() map[string]verdict.Account {
	accounts := map[string]verdict.Account{}
	for _, e := range v.sim.Ledger() {
		accounts[e.Reference] = verdict.Account{Charges: e.Charges, First: e.FirstCharged, Amount: e.Amount + " " + e.Currency}
	}
	return accounts
}

// statusWriter sees the status. What resets the connection finds it by Unwrap, and leaves the status at 0.
type statusWriter struct {
	http.ResponseWriter
	saw func(status int)
}

func (s *statusWriter) WriteHeader(status int) {
	s.saw(status)
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
