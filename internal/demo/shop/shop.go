// Package shop is the demo's front door: an HTTP server that turns an order into an event on the main topic.
//
// It promises 201 only after the broker has acknowledged the event. It keeps nothing: a real shop writes the order and an
// outbox row in one transaction instead of publishing inside the request. It never talks to billing.
package shop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/platform/kafkaclient"
)

// Publisher publishes one record and returns when the broker has acknowledged it.
type Publisher interface {
	Publish(ctx context.Context, r kafkaclient.Record) error
}

// Config says where orders go.
type Config struct {
	Topic          string
	Currency       string        // of an order that names none, as billing has it; EUR when empty
	PublishTimeout time.Duration // how long a request waits for the broker; 5 s when 0
	Log            *slog.Logger
	Now            func() time.Time
}

// Shop takes orders.
type Shop struct {
	cfg Config
	pub Publisher
}

// New makes a shop.
func New(cfg Config, pub Publisher) (*Shop, error) {
	cfg.Currency = cmp.Or(cfg.Currency, "EUR")
	cfg.PublishTimeout = cmp.Or(cfg.PublishTimeout, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	switch {
	case cfg.Topic == "":
		return nil, errors.New("shop: Topic is empty, want a name such as orders.confirmed")
	case !billing.KnownCurrency(cfg.Currency):
		return nil, fmt.Errorf("shop: Currency %q is not an ISO 4217 code such as EUR", cfg.Currency)
	case cfg.PublishTimeout < 0:
		return nil, fmt.Errorf("shop: PublishTimeout is %v, want more than 0", cfg.PublishTimeout)
	case pub == nil:
		return nil, errors.New("shop: there is no Publisher")
	}
	return &Shop{cfg: cfg, pub: pub}, nil
}

// Handler serves POST /orders and GET /healthz.
func (s *Shop) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.placeOrder)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	return mux
}

// Serve takes orders on the listener until the context ends, and then finishes those under way.
func (s *Shop) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      s.cfg.PublishTimeout + 10*time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("shop: serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.PublishTimeout+time.Second)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		return fmt.Errorf("shop: stop: %w", err)
	}
	return nil
}
