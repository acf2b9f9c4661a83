// Package reconcile compares what this service believes with what the provider knows.
//
// It ends unknown outcomes by looking the orders up, and compares all charges of a span of time in both directions. It
// promises that an outcome is called known only when it is proven, that an order somebody works on is left alone, and
// that what it needs of memory does not grow with the span. It never sends anything: only records do that.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/pgstore"
)

// Provider looks charges up. httpprovider.Client is the one implementation. Errors are *failure.Error.
type Provider interface {
	// Find lists the charges of a reference. With consistent = false a recent charge may be missing from the list.
	Find(ctx context.Context, reference uuid.UUID) (found []billing.ProviderCharge, consistent bool, err error)
	// List is a page of at most limit charges made in [from, to), oldest first; next is empty after the last one. A page
	// larger than is taken is billing.ErrTooLarge.
	List(ctx context.Context, from, to time.Time, cursor string, limit int) (page []billing.ListedCharge, next string, err error)
}

// Config of a reconciler.
type Config struct {
	Settled  time.Duration // longest time from a claim until its charge must be visible: the provider's longest processing and a lease
	Lookups  int           // look-ups at the provider at a time
	Sample   int           // orders with several claims that are looked up in one run, whatever the comparison says (hazard H1)
	Backoff  time.Duration // default 200 ms: the first wait before a look-up that failed in passing is tried again
	Progress func(Report)  // told now and then; may be nil
	Clock    func() time.Time
	Log      *slog.Logger
}

// Reconciler works for one command at a time.
type Reconciler struct {
	cfg      Config
	store    *pgstore.Store
	pool     *pgxpool.Pool
	provider Provider
}

// New checks the settings.
func New(cfg Config, store *pgstore.Store, pool *pgxpool.Pool, provider Provider) (*Reconciler, error) {
	if store == nil || pool == nil || provider == nil || cfg.Clock == nil || cfg.Log == nil {
		return nil, errors.New("reconcile: store, pool, provider, clock and log are required")
	}
	if cfg.Settled <= 0 || cfg.Lookups < 1 || cfg.Sample < 0 {
		return nil, fmt.Errorf("reconcile: settled is %s, look-ups %d and sample %d, want more than 0, at least 1, at least 0", cfg.Settled, cfg.Lookups, cfg.Sample)
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = 200 * time.Millisecond
	}
	if cfg.Progress == nil {
		cfg.Progress = func(Report) {}
	}
	return &Reconciler{cfg: cfg, store: store, pool: pool, provider: provider}, nil
}

// Request says what to do. Without either part there is nothing to do.
type Request struct {
	Unknown  bool // work through unknown outcomes
	Range    bool // compare the charges made in [From, To)
	From, To time.Time
	Resume   bool // take up the last comparison where it was interrupted; From and To are then those of that one
}

// Run does what is asked for. Beside an error the report tells how far it came; a comparison can then be resumed.
func (r *Reconciler) Run(ctx context.Context, q Request) (Report, error) {
	var report Report
	if q.Unknown {
		report.Unknown = &UnknownReport{}
		if err := r.workThrough(ctx, &report); err != nil {
			return report, err
		}
	}
	if !q.Range {
		return report, nil
	}
	run, err := r.openRun(ctx, q)
	if err != nil {
		return report, err
	}
	report.Range = &run.RangeReport
	if err := r.compare(ctx, run, &report); err != nil {
		return report, err
	}
	return report, r.saveRun(ctx, run, true)
}

// Latest is the end of the youngest span that can be compared: what was made later may still be on its way.
func (r *Reconciler) Latest() time.Time {
	return r.cfg.Clock().Add(-r.cfg.Settled).Truncate(time.Millisecond)
}

// each works on the items, a few at a time, and keeps the results in order.
func each[T, R any](ctx context.Context, atATime int, items []T, do func(context.Context, T) (R, error)) ([]R, error) {
	results := make([]R, len(items))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atATime)
	for i, item := range items {
		work.Go(func() (err error) {
			results[i], err = do(ctx, item)
			return err
		})
	}
	return results, work.Wait()
}
