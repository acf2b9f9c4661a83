package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing/pgstore"
)

// SweeperConfig says how fast the sweeper walks. Zero fields are set to their defaults.
type SweeperConfig struct {
	Every time.Duration // default 10 s: between two steps
	Pages uint32        // default 2048: of a step, 16 MiB of the table
	Grace time.Duration // how long after its end a lease may still be taken up by a message; required
	Log   *slog.Logger
}

// Sweeper walks through the orders for claims that nobody ended: the process died, and no message came again, since an
// offset was set or a topic was lost. Their outcome becomes unknown, and they are listed (hazard H3). It also takes off the
// list what is known by now.
//
// A message that comes again is the usual way out, so there is no hurry; what matters is that none is missed and that the
// walk costs next to nothing. An index on the lease would cost every claim and every settlement its in-place update, and a
// window of creation times would miss old orders that were replayed. So the table is read in small stretches, round and
// round: a million orders take five minutes, a hundred million some nine hours.
type Sweeper struct {
	cfg   SweeperConfig
	store *pgstore.Store
	owner uuid.UUID
	ours  bool   // the lease was ours in the last step
	next  uint32 // page
}

// NewSweeper checks the settings.
func NewSweeper(cfg SweeperConfig, store *pgstore.Store) (*Sweeper, error) {
	if store == nil || cfg.Log == nil || cfg.Grace <= 0 {
		return nil, errors.New("sweeper: store, log and a grace of more than 0 are required")
	}
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Second
	}
	if cfg.Pages == 0 {
		cfg.Pages = 2048
	}
	return &Sweeper{cfg: cfg, store: store, owner: uuid.New()}, nil
}

// Run walks until the context ends. No error ends it: what fails now is done in a later step.
func (s *Sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		swept, err := s.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.cfg.Log.Debug("sweep failed, it goes on", "error", err)
		case swept > 0:
			s.cfg.Log.Warn("leases had ended long ago and no message came for their orders: outcomes unknown, see `billing reconcile`", "orders", swept)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Step sweeps the next stretch, unless another instance does.
func (s *Sweeper) Step(ctx context.Context) (swept int64, err error) {
	held, err := s.store.Hold(ctx, "sweeper", s.owner, 3*s.cfg.Every)
	if err != nil || !held {
		s.ours = false
		return 0, err
	}
	total, err := s.store.Pages(ctx)
	if err != nil {
		return 0, err
	}
	if !s.ours && total > s.cfg.Pages { // begun at the start, a walk that deployments cut short would never see the end
		s.next = rand.N(total)
	}
	s.ours = true
	from, to := s.next, s.next+s.cfg.Pages
	if s.next = to; to >= total { // to the end, wherever that is by now
		s.next, to = 0, math.MaxUint32
	}
	if swept, err = s.store.Sweep(ctx, from, to, s.cfg.Grace); err != nil {
		return 0, err
	}
	_, err = s.store.ForgetKnown(ctx)
	return swept, err
}
