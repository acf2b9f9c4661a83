package main

import (
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"example.com/billing/internal/billing/pgstore"
)

// balanceReport is what `balance` found.
type balanceReport struct {
	Topic   string    `json:"topic"`
	TopicID uuid.UUID `json:"topic_id"`
	pgstore.Books
}

func newBalanceCommand() *cobra.Command {
	var output format
	cmd := &cobra.Command{
		Use: "balance", Short: "Check that every record of the main topic ended in exactly one way; exit code 3 if not", Args: cobra.NoArgs,
		Long: "balance reads the database at one instant and changes nothing: what it says is exact while the service runs. It counts for each\n" +
			"partition where the records ended, and looks for what a sum does not show: a record without a fate, or with two; a charge without\n" +
			"its event; an outcome that nobody will look up. It reads all charges four times.",
		Example: "  billing balance\n  BILLING_TOPIC=orders.confirmed billing balance -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(needsDatabase)
			if err != nil {
				return err
			}
			report, err := checkBalance(cmd, cfg)
			if err != nil {
				return err
			}
			if err := output.show(cmd.OutOrStdout(), report, report.print); err != nil {
				return err
			}
			if len(report.Flaws) > 0 {
				return errDifferences
			}
			return nil
		},
	}
	output.flag(cmd.Flags())
	return cmd
}

func checkBalance(cmd *cobra.Command, cfg Config) (report balanceReport, err error) {
	ctx := cmd.Context()
	store, pool, err := openStore(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return report, err
	}
	defer pool.Close()
	known, err := store.KnownTopic(ctx, cfg.Topic)
	if err != nil {
		return report, err
	}
	if known == uuid.Nil {
		return report, &usageError{[]string{fmt.Sprintf("BILLING_TOPIC: this database has never worked with %q (`billing serve` notes the topic at its start)", cfg.Topic)}}
	}
	books, err := store.CheckBooks(ctx, known)
	return balanceReport{cfg.Topic, known, books}, err
}
