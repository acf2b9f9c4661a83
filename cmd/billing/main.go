// Command billing charges confirmed orders exactly once. `billing help` lists what it can do; docs/architecture.md tells
// how it works, and internal/orders/processor.go is where to read first.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Set by the build, see the Makefile.
var (
	version = "dev"
	commit  = "unknown"
)

// The exit codes are part of the interface.
const (
	exitFailed      = 1 // failed while running
	exitUsage       = 2 // wrong usage or settings: nothing was started
	exitDifferences = 3 // a check found differences
)

// errDifferences ends a check that found some; they have been printed.
var errDifferences = errors.New("differences found")

func main() {
	// The HTTP client of the standard library quotes what a provider sends unasked, by package log, whose lines end here.
	// Our own loggers are passed on.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // a second signal ends the process at once
	os.Exit(exitCode(newRootCommand().ExecuteContext(ctx)))
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "billing",
		Short:         "Charges confirmed orders exactly once",
		Long:          "billing consumes confirmed orders from Kafka, charges each exactly once through an HTTP billing provider, retries what fails in\npassing, and keeps what cannot succeed for a person to decide.",
		Example:       "  billing demo\n  billing config --check\n  billing serve",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{[]string{fmt.Sprintf("%v; see `%s -h`", err, cmd.CommandPath())}}
	})
	root.AddCommand(newServeCommand(), newDemoCommand(), newMigrateCommand(), newTopicsCommand(), newConfigCommand(), newDLQCommand(), newConsumptionCommand(), newReconcileCommand(), newBalanceCommand(), newVersionCommand())
	return root
}

// exitCode prints the error, if any, and maps it.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errDifferences) {
		return exitDifferences
	}
	for i, line := range strings.Split(err.Error(), "\n") { // of several problems each has its line
		if i == 0 {
			line = "billing: " + line
		}
		fmt.Fprintln(os.Stderr, printable(strings.ReplaceAll(line, "\t", "  ")))
	}
	if _, ok := errors.AsType[*usageError](err); ok || wrongUsage(err) {
		return exitUsage
	}
	return exitFailed
}

// wrongUsage recognises what cobra says of commands and arguments, for which it has no type.
func wrongUsage(err error) bool {
	return slices.ContainsFunc([]string{"unknown command", "accepts ", "requires ", "required flag", "invalid argument"}, func(p string) bool { return strings.HasPrefix(err.Error(), p) })
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version and commit", Example: "  billing version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "billing %s (%s)\n", version, commit)
		},
	}
}
