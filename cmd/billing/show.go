package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"example.com/billing/internal/billing/httpprovider"
	"example.com/billing/internal/platform/kafkaclient"
)

func newConfigCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "config", Short: "Show the effective settings, secrets masked; --check also reaches what they name", Args: cobra.NoArgs,
		Long: "config prints every setting with its value and meaning. Settings are variables that begin with BILLING_; secrets may be given as the path\n" +
			"of a file, BILLING_PROVIDER_TOKEN_FILE for BILLING_PROVIDER_TOKEN. --check reaches brokers, topics, database and provider and changes nothing:\n" +
			"exit code 3 if one is not as it should be. Exit code 2: the settings themselves are wrong.",
		Example: "  billing config\n  billing config --check",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, w := range unknownVariables(os.Environ()) {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", printable(w))
			}
			cfg, err := loadConfig(needsAll)
			if err != nil {
				return err
			}
			printConfig(cmd.OutOrStdout(), cfg)
			if !check {
				return nil
			}
			return checkConfig(cmd.Context(), cmd.OutOrStdout(), cfg)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "reach brokers, topics, database and provider; exit code 3 if one is not as it should be")
	cmd.AddCommand(newUnpinCommand())
	return cmd
}

// checkConfig reaches everything that the settings name, all at the same time: one that does not answer takes no time from
// the others.
func checkConfig(ctx context.Context, w io.Writer, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, topicsDeadline)
	defer cancel()
	all := []struct {
		name  string
		check func(context.Context, Config) error
	}{{"brokers and topics", checkTopics}, {"database", checkDatabase}, {"provider", checkProvider}}
	results := make([]error, len(all))
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() { results[i] = c.check(ctx, cfg) })
	}
	running.Wait()
	for i, c := range all {
		text := "ok"
		if results[i] != nil {
			text = results[i].Error()
		}
		fmt.Fprintf(w, "%s: %s\n", c.name, strings.ReplaceAll(text, "\n", "\n  "))
	}
	if errors.Join(results...) != nil {
		return errDifferences
	}
	return nil
}

func checkTopics(ctx context.Context, cfg Config) error {
	admin, err := kafkaclient.NewAdmin(cfg.kafka())
	if err != nil {
		return err
	}
	defer admin.Close()
	plan, err := planTopics(ctx, admin, cfg, 0)
	if err != nil {
		return err
	}
	var text strings.Builder
	if printPlan(&text, plan) {
		return fmt.Errorf("not as wanted, see `billing topics plan`:\n%s", strings.TrimSpace(text.String()))
	}
	return nil
}

// checkDatabase looks at the schema, and at what was pinned at the first start.
func checkDatabase(ctx context.Context, cfg Config) error {
	store, pool, err := openStore(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer pool.Close()
	return store.CheckPin(ctx, cfg.installation())
}

// checkProvider looks up an order that cannot exist: address, certificate and token are right if that is answered.
func checkProvider(ctx context.Context, cfg Config) error {
	provider, err := httpprovider.New(httpprovider.Config{URL: cfg.ProviderURL, Token: cfg.ProviderToken, Timeout: cfg.ProviderTimeout, MaxConns: 1})
	if err != nil {
		return err
	}
	defer provider.Close()
	_, _, err = provider.Find(ctx, uuid.New())
	return err
}
