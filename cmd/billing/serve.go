package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"example.com/billing/internal/platform/telemetry"
)

func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "serve", Short: "Run the service", Args: cobra.NoArgs,
		Long:    "serve charges orders until it is stopped. It needs the schema (`billing migrate up`) and the topics (`billing topics apply`) and\nchanges neither. SIGTERM or Ctrl-C stops it within BILLING_STOP_TIMEOUT; a second one at once.",
		Example: "  BILLING_KAFKA_BROKERS=localhost:9092 BILLING_DATABASE_URL=postgres://billing@localhost/billing \\\n  BILLING_PROVIDER_URL=https://billing.example.com billing serve",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(needsAll)
			if err != nil {
				return err
			}
			log, err := telemetry.NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
			if err != nil {
				return err
			}
			warnUnknown(log)
			return serve(cmd.Context(), cfg, log, serveOptions{})
		},
	}
}

func warnUnknown(log *slog.Logger) {
	for _, w := range unknownVariables(os.Environ()) {
		log.Warn(w)
	}
}
