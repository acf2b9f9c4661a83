package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"example.com/billing/internal/platform/postgres"
	"example.com/billing/migrations"
)

func newMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the database schema up to date, or show where it stands", Example: "  billing migrate up"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "up", Short: "Apply the migrations that are missing; forward only", Args: cobra.NoArgs,
			Example: "  BILLING_DATABASE_URL=postgres://billing@localhost/billing billing migrate up",
			RunE: func(cmd *cobra.Command, _ []string) error {
				cfg, err := loadConfig(needsDatabase)
				if err != nil {
					return err
				}
				applied, err := postgres.Migrate(cmd.Context(), cfg.DatabaseURL, migrations.Files)
				for _, m := range applied {
					fmt.Fprintln(cmd.OutOrStdout(), "applied", m.File)
				}
				if err == nil && len(applied) == 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "up to date")
				}
				return err
			},
		},
		&cobra.Command{
			Use: "status", Short: "List the migrations and whether they are applied", Args: cobra.NoArgs,
			Example: "  billing migrate status",
			RunE: func(cmd *cobra.Command, _ []string) error {
				cfg, err := loadConfig(needsDatabase)
				if err != nil {
					return err
				}
				status, err := postgres.Status(cmd.Context(), cfg.DatabaseURL, migrations.Files)
				for _, m := range status {
					at := "pending"
					if !m.AppliedAt.IsZero() {
						at = m.AppliedAt.Format(time.RFC3339)
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%-24s %s\n", m.File, at)
				}
				return err
			},
		},
	)
	return cmd
}
