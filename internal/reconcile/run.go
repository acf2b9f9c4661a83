package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNothingToResume means that the last comparison came to its end, or that there was none.
var ErrNothingToResume = errors.New("there is no comparison that was interrupted")

// run is a comparison that stands in the database, so that another process can take it up.
type run struct {
	id int64
	RangeReport
}

// openRun begins a comparison, or takes the last one up. Its range ends where charges have settled: one that is on its way
// would look like a difference.
func (r *Reconciler) openRun(ctx context.Context, q Request) (*run, error) {
	if q.Resume {
		return r.lastRun(ctx)
	}
	from, to := q.From.Truncate(time.Millisecond), q.To.Truncate(time.Millisecond)
	if latest := r.Latest(); to.After(latest) {
		to = latest
	}
	if !from.Before(to) {
		return nil, fmt.Errorf("the range from %s to %s is empty; charges younger than %s are not compared", from.Format(time.RFC3339), to.Format(time.RFC3339), r.cfg.Settled)
	}
	run := &run{RangeReport: RangeReport{From: from, To: to, Until: from, thereUntil: from.Add(-time.Millisecond)}}
	report, err := json.Marshal(run.RangeReport)
	if err != nil {
		return nil, err
	}
	err = r.pool.QueryRow(ctx, `INSERT INTO reconcile_runs (range_from, range_to, there_until, here_until, report) VALUES ($1, $2, $3, $1, $4) RETURNING id`,
		from, to, run.thereUntil, report).Scan(&run.id)
	if err != nil {
		return nil, fmt.Errorf("begin comparison: %w", err)
	}
	return run, nil
}

func (r *Reconciler) lastRun(ctx context.Context) (*run, error) {
	var last run
	var thereUntil, hereUntil time.Time
	var report []byte
	var finished bool
	err := r.pool.QueryRow(ctx, `SELECT id, there_until, here_until, report, finished_at IS NOT NULL FROM reconcile_runs ORDER BY id DESC LIMIT 1`).
		Scan(&last.id, &thereUntil, &hereUntil, &report, &finished)
	if finished || errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNothingToResume
	}
	if err == nil {
		err = json.Unmarshal(report, &last.RangeReport)
	}
	if err != nil {
		return nil, fmt.Errorf("read the last comparison: %w", err)
	}
	last.thereUntil, last.Until = thereUntil, hereUntil
	return &last, nil
}

// saveRun keeps how far the comparison has come, with what it has found.
func (r *Reconciler) saveRun(ctx context.Context, run *run, finished bool) error {
	report, err := json.Marshal(run.RangeReport)
	if err != nil {
		return err
	}
	_, err = r.pool.Exec(ctx, `UPDATE reconcile_runs SET there_until = $2, here_until = $3, report = $4, updated_at = now(),
		finished_at = CASE WHEN $5 THEN now() END WHERE id = $1`, run.id, run.thereUntil, run.Until, report, finished)
	if err != nil {
		return fmt.Errorf("save comparison %d: %w", run.id, err)
	}
	return nil
}
