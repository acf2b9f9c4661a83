package pgstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/failure"
)

const (
	acquireTimeout = 4 * time.Second // longer than a connection attempt
	sentTimeout    = 7 * time.Second // longer than the server's own limit for a statement, so that its word comes first
	maxTries       = 4
	tryBudget      = 5 * time.Second // no further try is begun after this
)

// session is one connection while one piece of work is done with it. It notes how far that came.
type session struct {
	*pgx.Conn
	doubt bool // an earlier try of the same work may have been committed
}

// work is one or more statements that may be done again from the start: every piece of work in this package either was
// rolled back, or finds its own traces and does nothing twice.
type work func(ctx context.Context, db session) error

// patiently does the work, and does it again a few times when the failure is known to pass by itself. It returns a
// *failure.Error with the operation, or nil.
func (s *Store) patiently(ctx context.Context, op string, do work) error {
	begun, doubt := time.Now(), false
	for try := 1; ; try++ {
		p, err := s.once(ctx, doubt, do)
		if err == nil {
			return nil
		}
		v := classify(err, p)
		if v.reset {
			s.pool.Reset()
		}
		if !v.again || try == maxTries || time.Since(begun) > tryBudget {
			return v.failure(op, err)
		}
		doubt = doubt || v.doubt
		select {
		case <-ctx.Done():
			return v.failure(op, err)
		case <-time.After(backoff(try)):
		}
	}
}

func (v verdict) failure(op string, err error) error {
	f := failure.New(v.reason, op+": %w", err)
	f.Final = v.final
	return f
}

// backoff grows from about 10 ms to about 160 ms, with jitter: those who collided must not meet again.
func backoff(try int) time.Duration {
	ceiling := 10 * time.Millisecond << (2 * (try - 1))
	return ceiling/2 + rand.N(ceiling)
}

func (s *Store) once(ctx context.Context, doubt bool, do work) (phase, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return acquiring, err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, sentTimeout)
	defer cancel()
	if err := do(ctx, session{conn.Conn(), doubt}); err != nil {
		if conn.Conn().IsClosed() {
			return sent, err
		}
		return unsent, err
	}
	return sent, nil
}

func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	return s.pool.Acquire(ctx)
}
