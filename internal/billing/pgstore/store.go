// Package pgstore keeps claims, outcomes and result events in Postgres.
//
// It promises that of all who claim an order at once exactly one gets it, whatever the process, and that an outcome is
// stored once with its attempt and its event, or not at all: also when sessions are killed and commits go unanswered.
// Concurrent calls share statements, which is what makes it fast. It never sends anything to the provider, never holds a
// connection between a claim and its settlement, and never logs what Postgres says about a row.
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/billing"
)

const (
	maxBatch   = 500
	sendMargin = 2 * time.Second // the least time between a claim and the last instant to send
)

// MinConns is the least size of the pool: three for the statements of claims, settlements and fates, one for the rows that are
// tried apart, one for a long reading of the books, and one that the relay, the leases and single questions always get.
const MinConns = 6

// Config of a store.
type Config struct {
	Pool            *pgxpool.Pool
	Environment     string // with Account, part of the idempotency key of a new order
	Account         string // the provider account of a new order
	Lease           time.Duration
	ProviderTimeout time.Duration // the longest that one request to the provider takes
	Clock           func() time.Time
	Log             *slog.Logger
	EventWritten    func() // called after result events were committed; may be nil
}

// Store implements billing.Store, and keeps the books of what became of each record. It works while Run does.
type Store struct {
	cfg     Config
	pool    *pgxpool.Pool
	claims  *lanes[uuid.UUID, claimRequest, claimResult]
	settles *lanes[uuid.UUID, settleRequest, bool]
	fates   *lanes[billing.Origin, Fate, struct{}]
	turn    sync.Mutex // of what is tried apart
	outwait outwait
}

// New checks that a claim leaves time to send: the request must have ended before the lease does (hazard H1).
func New(cfg Config) (*Store, error) {
	if cfg.Pool == nil || cfg.Clock == nil || cfg.Log == nil {
		return nil, errors.New("pgstore: pool, clock and log are required")
	}
	if cfg.ProviderTimeout <= 0 || cfg.Lease < cfg.ProviderTimeout+sendMargin {
		return nil, fmt.Errorf("pgstore: the lease of %s must be at least %s longer than the provider's timeout of %s", cfg.Lease, sendMargin, cfg.ProviderTimeout)
	}
	if have := cfg.Pool.Config().MaxConns; have < MinConns {
		return nil, fmt.Errorf("pgstore: a pool of %d connections is too small, want %d at least (BILLING_DATABASE_MAX_CONNS)", have, MinConns)
	}
	if cfg.EventWritten == nil {
		cfg.EventWritten = func() {}
	}
	s := &Store{cfg: cfg, pool: cfg.Pool, outwait: outwait{first: map[uuid.UUID]time.Time{}}}
	s.claims = newLanes(&s.turn, claimRequest.key, s.claimBatch)
	s.claims.usual.orphaned, s.claims.apart.orphaned = s.release, s.release
	s.settles = newLanes(&s.turn, settleRequest.key, s.settleBatch)
	s.fates = newLanes(&s.turn, Fate.key, s.fateBatch)
	return s, nil
}

// Run does the work of concurrent callers until ctx is done; then it finishes what has been asked for. Claims end first,
// since a claim whose caller has gone is settled again.
func (s *Store) Run(ctx context.Context) error {
	afterClaims, claimsDone := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		defer claimsDone()
		s.claims.serve(ctx)
	})
	wg.Go(func() { s.settles.serve(afterClaims) })
	wg.Go(func() { s.fates.serve(afterClaims) })
	wg.Wait()
	return nil
}
