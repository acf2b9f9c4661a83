package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// splitBudget is how long one batch is split because of waits. If they have not ended by then, they are not one row's.
const splitBudget = 4 * time.Second

// isolate runs do for the whole batch. When the database refuses a row, or waits for one in vain, the batch is halved until
// the culprit stands alone: one bad row among hundreds costs a dozen statements, and its neighbours never notice (hazard
// H32). brief: the statement may wait for a moment only, since a row of the batch was waited for in vain before.
func isolate[In, Out any](batch []*job[In, Out], brief bool, do func(batch []*job[In, Out], brief bool) error) {
	until := time.Now().Add(splitBudget)
	var split func(batch []*job[In, Out], err error)
	split = func(batch []*job[In, Out], err error) {
		wait := isLockWait(err)
		switch {
		case err == nil:
		case len(batch) > 1 && (isRefusal(err) || wait && time.Now().Before(until)):
			first, second := batch[:len(batch)/2], batch[len(batch)/2:]
			split(first, do(first, brief || wait))
			split(second, do(second, brief || wait))
		default:
			for _, j := range batch {
				j.err = err
			}
		}
	}
	split(batch, do(batch, brief))
}

// briefly does the work in a transaction that waits for nobody for long.
func briefly(brief bool, do work) work {
	if !brief {
		return do
	}
	return func(ctx context.Context, db session) error {
		return pgx.BeginFunc(ctx, db.Conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '100ms'; SET LOCAL statement_timeout = '1s'`); err != nil {
				return err
			}
			return do(ctx, db)
		})
	}
}
