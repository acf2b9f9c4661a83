package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/demo/shop"
	"example.com/billing/internal/platform/kafkaclient"
)

// demoFaults are the provider's moods in the demo: some orders are declined or refused for good, some fail once or twice, one in
// a hundred answers is lost after the money moved.
const demoFaults = "402@*=0.02,400@*=0.005,503@1=0.02,500after@2=0.01,hang@1=0.002,reset-after=0.003,garbage=0.002,429=0.01"

// demoMoods is the provider of `billing demo`.
func demoMoods(seed uint64) providersim.Config {
	rules, err := providersim.ParseRules(demoFaults)
	if err != nil {
		panic(err) // a constant, covered by a test
	}
	return providersim.Config{Seed: seed, Latency: 20 * time.Millisecond, Jitter: 60 * time.Millisecond, Rules: rules}
}

func newDemoProviderCommand() *cobra.Command {
	var addr, faults, token string
	cfg := providersim.Config{}
	cmd := &cobra.Command{
		Use: "provider", Short: "Run the provider simulator alone", Args: cobra.NoArgs,
		Long: "provider keeps the provider's HTTP contract and fails on purpose. --faults takes kind=share of requests, kind@n=share for the first n requests\n" +
			"of a share of orders, kind@*=share for each request of a share of orders. POST /_control {\"mode\", \"for\"} makes an outage: a kind for\n" +
			"everyone, any status from 300 to 599, 402-page (an HTML page), sick-401 (one node of three), some-429 (one charge in a hundred), limit-500 (charges\n" +
			"a second), unsure (look-ups prove nothing). GET /_ledger/summary counts how often money moved.",
		Example: "  billing demo provider --latency 50ms --faults 402@*=0.02,503@1=0.1,reset-after=0.01",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Rules, err = providersim.ParseRules(faults); err != nil {
				return &usageError{[]string{"--faults: " + err.Error()}}
			}
			cfg.Token = cmp.Or(token, os.Getenv("BILLING_PROVIDER_TOKEN"))
			sim, err := providersim.New(cfg)
			if err != nil {
				return &usageError{[]string{err.Error()}}
			}
			context.AfterFunc(cmd.Context(), sim.Close)
			return serveHTTP(cmd.Context(), addr, sim.Handler())
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "addr", ":9099", "address to listen on")
	f.StringVar(&faults, "faults", demoFaults, "what goes wrong; empty: nothing")
	f.StringVar(&token, "token", "", "bearer token asked for; else that of BILLING_PROVIDER_TOKEN, if it is set")
	f.DurationVar(&cfg.Latency, "latency", 20*time.Millisecond, "work of a charge")
	f.DurationVar(&cfg.Jitter, "jitter", 60*time.Millisecond, "up to this much is added")
	f.DurationVar(&cfg.KeyTTL, "key-ttl", 24*time.Hour, "how long an idempotency key is remembered")
	f.Uint64Var(&cfg.Seed, "seed", 1, "one seed gives each order the same fate in every run")
	return cmd
}

func newDemoShopCommand() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use: "shop", Short: "Run the shop alone: POST /orders becomes an event on the main topic", Args: cobra.NoArgs,
		Example: "  BILLING_KAFKA_BROKERS=localhost:9092 billing demo shop\n  curl -d '{\"customer_id\":\"7d0d3b0e-6c0b-4f0e-9a3d-0d4f2c7d9d11\",\"total_amount\":\"149.90\"}' localhost:8081/orders",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(needsKafka)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
			producer, err := kafkaclient.NewProducer(cfg.kafka(), log)
			if err != nil {
				return err
			}
			defer producer.Close(time.Second)
			s, err := shop.New(shop.Config{Topic: cfg.Topic, Currency: cfg.Currency, Log: log}, producer)
			if err != nil {
				return err
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", addr)
			if err != nil {
				return err
			}
			return s.Serve(cmd.Context(), listener)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", ":8081", "address to listen on")
	return cmd
}

// serveHTTP serves until ctx is done, then lets requests finish for a moment.
func serveHTTP(ctx context.Context, addr string, h http.Handler) error {
	server := &http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(stop) != nil {
			_ = server.Close() // what still runs is cut
		}
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	return nil
}
