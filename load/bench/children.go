package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"time"

	"example.com/billing/load/bench/ledger"
	"example.com/billing/load/bench/peers"
)

// children are what this program is when it has started itself, beside the broker.
var children = map[string]func(context.Context, []string) error{
	"loop":   func(ctx context.Context, _ []string) error { return runPeer(ctx, peers.Loop) },
	"floor":  func(ctx context.Context, _ []string) error { return runPeer(ctx, peers.Floor) },
	"ledger": runLedger,
}

func runPeer(ctx context.Context, peer func(context.Context, peers.Config) error) error {
	cfg, err := peers.FromEnvironment()
	if err != nil {
		return err
	}
	return peer(ctx, cfg)
}

func runLedger(ctx context.Context, args []string) error {
	var cfg ledger.Config
	fs := flag.NewFlagSet("bench ledger", flag.ContinueOnError)
	addr := fs.String("listen", "127.0.0.1:0", "address")
	fs.DurationVar(&cfg.Latency, "latency", 0, "of each charge")
	fs.IntVar(&cfg.FailEvery, "fail-every", 0, "each n-th order's first request fails")
	fs.Float64Var(&cfg.Refuse, "refuse", 0, "share of the requests that is answered 429")
	fs.Float64Var(&cfg.Takes, "takes", 0, "charges a second; what is more is answered 429")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", *addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: ledger.New(cfg).Handler(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing of a ledger outlives its trial
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
