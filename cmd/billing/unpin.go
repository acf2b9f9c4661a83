package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/user"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"example.com/billing/internal/audit"
	"example.com/billing/internal/billing/pgstore"
)

// installation is what a database is pinned to.
func (c *Config) installation() pgstore.Installation {
	return pgstore.Installation{Environment: c.Environment, Account: c.ProviderAccount, Group: c.Group}
}

func newUnpinCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "unpin", Short: "Forget environment, account and group of the first start, while no order was taken", Args: cobra.NoArgs,
		Long: "BILLING_ENVIRONMENT, BILLING_PROVIDER_ACCOUNT and BILLING_GROUP are pinned in the database at the first start, since the idempotency keys of\n" +
			"orders and the place in the topics follow from them. When one of them was wrong at that start, unpin forgets all of them, and the next start\n" +
			"pins anew. It is refused once an order was taken, and while an instance runs. The audit trail keeps what was forgotten, by whom and why.",
		Example: "  billing config unpin --reason \"misspelt environment\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason = strings.TrimSpace(reason); reason == "" {
				return &usageError{[]string{"--reason is required: say why, for the audit trail"}}
			}
			cfg, err := loadConfig(needsDatabase)
			if err != nil {
				return err
			}
			return unpin(cmd, cfg, reason)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept in the audit trail")
	return cmd
}

func unpin(cmd *cobra.Command, cfg Config, reason string) error {
	store, pool, err := openStore(cmd.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer pool.Close()
	var forgotten []byte
	err = store.Unpin(cmd.Context(), func(ctx context.Context, tx pgx.Tx, pinned []byte) error {
		forgotten = pinned
		return audit.WriteTo(ctx, tx, audit.Entry{
			Actor: audit.Actor{Name: shellUser(), Role: "shell"}, Action: "config.unpin", Reason: reason, Target: json.RawMessage(pinned), Outcome: "forgotten",
		})
	})
	if errors.Is(err, pgstore.ErrNotPinned) {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing is pinned")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "forgotten: %s\nthe next start pins what is set then\n", printableJSON(forgotten))
	return nil
}

// shellUser is who the operating system says is at the shell.
func shellUser() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return "unknown"
	}
	return u.Username
}
