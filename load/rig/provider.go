package rig

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
)

// Provider is the simulator, with every request written down beside its ledger.
type Provider struct {
	Addr string
	Sim  *providersim.Server

	server *http.Server

	mu       sync.Mutex
	requests []*Request
}

// Request is one that the provider took, complete and in form.
type Request struct {
	At     time.Time
	Order  string
	Key    string
	Amount string
	Status int // 0: it got no answer
}

// StartProvider serves the simulator on a free address.
func StartProvider(cfg providersim.Config) (*Provider, error) {
	sim, err := providersim.New(cfg)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &Provider{Addr: listener.Addr().String(), Sim: sim}
	v.server = &http.Server{Handler: v.tap(sim.Handler()), ReadHeaderTimeout: time.Minute}
	go func() { _ = v.server.Serve(listener) }() // ends with Close
	return v, nil
}

// Close ends it and what hangs in it.
func (v *Provider) Close() {
	v.Sim.Close()
	_ = v.server.Close()
}

// tap writes a charge's request down when all of it is here, and its answer's status when there is one.
func (v *Provider) tap(next http.Handler) http.Handler {
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

func (v *Provider) note(key string, body []byte) *Request {
	var asked struct{ Reference, Amount, Currency string }
	_ = json.Unmarshal(body, &asked) // what is no JSON has no reference, which the verdict shows
	n := &Request{At: time.Now(), Order: asked.Reference, Key: key, Amount: asked.Amount + " " + asked.Currency}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests = append(v.requests, n)
	return n
}

// Requests so far.
func (v *Provider) Requests() []Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]Request, len(v.requests))
	for i, r := range v.requests {
		all[i] = *r
	}
	return all
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
