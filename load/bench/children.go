package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"example.com/billing/internal/demo/broker"
	"example.com/billing/load/bench/ledger"
	"example.com/billing/load/bench/peers"
)

// children are what this program is when it has started itself. The servers print their address when they are ready.
var children = map[string]func(context.Context, []string) error{
	"loop":   func(ctx context.Context, _ []string) error { return runPeer(ctx, peers.Loop) },
	"floor":  func(ctx context.Context, _ []string) error { return runPeer(ctx, peers.Floor) },
	"broker": runBroker,
	"ledger": runLedger,
}

func runPeer(ctx context.Context, peer func(context.Context, peers.Config) error) error {
	cfg, err := peers.FromEnvironment()
	if err != nil {
		return err
	}
	return peer(ctx, cfg)
}

func runBroker(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: bench broker DIRECTORY")
	}
	b, err := broker.Start(args[0], 0)
	if err != nil {
		return err
	}
	defer b.Close()
	fmt.Println(b.Addr)
	<-ctx.Done()
	return nil
}

func runLedger(ctx context.Context, args []string) error {
	var cfg ledger.Config
	fs := flag.NewFlagSet("bench ledger", flag.ContinueOnError)
	fs.DurationVar(&cfg.Latency, "latency", 0, "of each charge")
	fs.IntVar(&cfg.FailEvery, "fail-every", 0, "each n-th order's first request fails")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: ledger.New(cfg).Handler(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing of a ledger outlives its trial
	fmt.Fprintln(os.Stdout, "http://"+l.Addr().String())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
