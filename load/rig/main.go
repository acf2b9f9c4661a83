package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a load program to its end, which a first signal asks for and a second one is. The program is the broker, too,
// when StartBroker starts it again.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore)
	if len(os.Args) > 1 && os.Args[1] == "broker" {
		run = func(ctx context.Context, args []string) error { return runBroker(ctx, args[1:]) }
	}
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// TestMain is for tests that call StartBroker: the test binary is the broker, too.
func TestMain(m interface{ Run() int }) {
	Main("test", func(context.Context, []string) error {
		if code := m.Run(); code != 0 {
			os.Exit(code)
		}
		return nil
	})
}
