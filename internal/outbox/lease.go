package outbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/billing/internal/platform/postgres"
)

const (
	leaseFor     = 4 * time.Second
	leaseRenewal = time.Second
)

// lease is a row that says which instance may do something. It is asked for by name.
type lease struct {
	pool  *pgxpool.Pool
	name  string
	owner uuid.UUID
	until atomic.Pointer[time.Time] // by our own clock
}

func newLease(pool *pgxpool.Pool, name string) *lease {
	return &lease{pool: pool, name: name, owner: uuid.New()}
}

// while does the work as long as the lease is ours; its context ends when that can no longer be shown. It returns at once
// when another has the lease.
func (l *lease) while(ctx context.Context, work func(context.Context) error) error {
	ok, err := l.take(ctx)
	if err != nil || !ok {
		return err
	}
	defer l.giveBack()
	g, ctx := errgroup.WithContext(ctx)
	held, lost := context.WithCancel(ctx)
	g.Go(func() error {
		defer lost()
		return l.renew(held)
	})
	g.Go(func() error {
		defer lost()
		return work(held)
	})
	return g.Wait()
}

// live reports whether the lease is still ours for certain. A process that was frozen sees here that it has ended, before
// its timers tell.
func (l *lease) live() bool { return time.Now().Before(*l.until.Load()) }

// renew returns when the lease has ended, or may have ended, or the work is done.
func (l *lease) renew(ctx context.Context) error {
	for {
		if pause(ctx, nil, leaseRenewal); done(ctx) {
			return nil
		}
		ask, cancel := context.WithDeadline(ctx, *l.until.Load())
		ok, err := l.take(ask)
		cancel()
		switch {
		case done(ctx):
			return nil
		case err == nil && !ok:
			return fmt.Errorf("lease %s: taken over by another instance", l.name)
		case err != nil && !l.live():
			return err
		}
	}
}

// take takes or renews the lease, unless another has it. The end is by our own clock, from before the question: it comes
// earlier than the database's, never later.
func (l *lease) take(ctx context.Context) (ok bool, err error) {
	until := time.Now().Add(leaseFor)
	if ok, err = postgres.TakeLease(ctx, l.pool, l.name, l.owner, leaseFor); ok {
		l.until.Store(&until)
	}
	return ok, err
}

// giveBack lets the next one take over at once.
func (l *lease) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = postgres.GiveLeaseBack(ctx, l.pool, l.name, l.owner) // else it ends by itself
}
