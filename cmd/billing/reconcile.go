package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"example.com/billing/internal/billing/httpprovider"
	"example.com/billing/internal/platform/telemetry"
	"example.com/billing/internal/reconcile"
)

// needsProvider is what the reconciler works with. It reads no topic.
var needsProvider = []string{"DatabaseURL", "ProviderURL"}

const (
	reconcileLookups = 8 // at the provider at a time: the service itself is more important
	reconcileSpan    = 24 * time.Hour
)

// sweepGrace is how long after its end a lease may still be taken up by a message before its outcome counts as unknown.
func sweepGrace(cfg Config) time.Duration { return max(5*time.Minute, 4*cfg.Lease) }

// reconcileFlags are what `reconcile` was asked for.
type reconcileFlags struct {
	from, to               string
	unknownOnly, rangeOnly bool
	resume                 bool
	sample                 int
	output                 format
}

func newReconcileCommand() *cobra.Command {
	var f reconcileFlags
	cmd := &cobra.Command{
		Use: "reconcile", Short: "Compare with the provider: unknown outcomes, double charges, other amounts; exit code 3 if they differ", Args: cobra.NoArgs,
		Long: "reconcile asks the provider and never sends a charge. First it looks up every order whose outcome is unknown: what is found is\n" +
			"recorded, what is proven absent may be replayed, what contradicts itself goes to review. Then it compares all charges made in a\n" +
			"span of time, by default the last 24 hours, with the orders here, in both directions. Charges that may still be on their way are\n" +
			"left to the next run. An interrupted comparison is taken up with --resume.",
		Example: "  billing reconcile\n  billing reconcile --from 2026-01-02T00:00:00Z --to 2026-01-03T00:00:00Z -o json\n  billing reconcile --unknown-only",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(needsProvider)
			if err != nil {
				return err
			}
			return f.run(cmd, cfg)
		},
	}
	cmd.Flags().StringVar(&f.from, "from", "", "charges made at or after, such as 2026-01-02T15:04:05Z; default 24 h before --to")
	cmd.Flags().StringVar(&f.to, "to", "", "charges made before; default as late as can be")
	cmd.Flags().BoolVar(&f.unknownOnly, "unknown-only", false, "work through unknown outcomes, compare no range")
	cmd.Flags().BoolVar(&f.rangeOnly, "range-only", false, "compare the range, do not work through unknown outcomes first")
	cmd.Flags().BoolVar(&f.resume, "resume", false, "take up the last comparison where it was interrupted")
	cmd.Flags().IntVar(&f.sample, "sample", 1000, "orders with more than one claim that are looked up in full")
	f.output.flag(cmd.Flags())
	return cmd
}

// request checks the flags. latest is the end of the youngest range that can be compared.
func (f *reconcileFlags) request(latest time.Time) (reconcile.Request, error) {
	q := reconcile.Request{Unknown: !f.rangeOnly, Range: !f.unknownOnly, Resume: f.resume, To: latest}
	var problems []string
	instant := func(flag, text string, into *time.Time) {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			*into = at
		} else if text != "" {
			problems = append(problems, fmt.Sprintf("--%s %q is not a time such as 2026-01-02T15:04:05Z", flag, text))
		}
	}
	instant("to", f.to, &q.To)
	q.From = q.To.Add(-reconcileSpan)
	instant("from", f.from, &q.From)
	switch {
	case f.unknownOnly && (f.rangeOnly || f.resume || f.from != "" || f.to != ""):
		problems = append(problems, "--unknown-only goes with no flag about the range")
	case f.resume && (f.from != "" || f.to != ""):
		problems = append(problems, "--resume keeps the range of the interrupted comparison: leave out --from and --to")
	case len(problems) == 0 && !q.From.Before(q.To):
		problems = append(problems, "--from is not before --to")
	case len(problems) == 0 && !q.From.Before(latest):
		problems = append(problems, fmt.Sprintf("charges made after %s may still be on their way and are not compared yet", latest.Format(time.RFC3339)))
	}
	if f.sample < 0 {
		problems = append(problems, "--sample is negative")
	}
	if len(problems) > 0 {
		return q, &usageError{problems}
	}
	return q, nil
}

func (f *reconcileFlags) run(cmd *cobra.Command, cfg Config) error {
	settled := cfg.ProviderMaxProcessing + cfg.Lease
	q, err := f.request(time.Now().Add(-settled))
	if err != nil {
		return err
	}
	ctx, progress := cmd.Context(), newProgress(cmd.ErrOrStderr())
	log, err := reconcileLog(cmd.ErrOrStderr(), cfg)
	if err != nil {
		return err
	}
	r, closeAll, err := openReconciler(ctx, cfg, log, reconcile.Config{
		Settled: settled, Lookups: reconcileLookups, Sample: f.sample, Progress: progress.show, Clock: time.Now, Log: log,
	})
	if err != nil {
		return err
	}
	defer closeAll()
	report, err := r.Run(ctx, q)
	progress.end()
	if shown := f.output.show(cmd.OutOrStdout(), report, func(w io.Writer) error { return printReport(w, report) }); err == nil {
		err = shown
	}
	switch {
	case errors.Is(err, reconcile.ErrNothingToResume):
		return &usageError{[]string{"--resume: " + err.Error()}}
	case err != nil && report.Range != nil:
		return fmt.Errorf("compared up to %s, `billing reconcile --resume` goes on from there: %w", report.Range.Until.Format(time.RFC3339), err)
	case err != nil:
		return err
	case report.Differences().Total > 0:
		return errDifferences
	}
	return nil
}

// reconcileLog is silent where a person is looking, who has the progress and the report.
func reconcileLog(w io.Writer, cfg Config) (*slog.Logger, error) {
	if isTerminal(w) {
		return slog.New(slog.DiscardHandler), nil
	}
	return telemetry.NewLogger(w, cfg.LogLevel, cfg.LogFormat)
}

func openReconciler(ctx context.Context, cfg Config, log *slog.Logger, rc reconcile.Config) (_ *reconcile.Reconciler, closeAll func(), err error) {
	store, pool, err := openStore(ctx, cfg, log)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			pool.Close()
		}
	}()
	// Another account would not know our charges, and all of them would look as if they had never been made (hazard H6).
	if err := store.CheckPin(ctx, cfg.installation()); err != nil {
		return nil, nil, err
	}
	provider, err := httpprovider.New(httpprovider.Config{URL: cfg.ProviderURL, Token: cfg.ProviderToken, Timeout: cfg.ProviderTimeout, MaxConns: rc.Lookups})
	if err != nil {
		return nil, nil, err
	}
	r, err := reconcile.New(rc, store, pool, provider)
	return r, func() { provider.Close(); pool.Close() }, err
}
