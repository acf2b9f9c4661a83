// Package fleet lets the instances of the service act together (hazard H20): an operator's pause stops all of them, and an
// instance that is held while another one works leaves the consumer groups, so that its partitions are worked on.
//
// It promises nothing about money: claims and offsets do. It never stops the process, and while the database cannot be
// asked it changes nothing.
package fleet

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/failure"
)

// Line is what is held. hold.Line is the one implementation.
type Line interface {
	Held() (failure.Reason, time.Time)
	Answered() time.Time
	Pause(on bool)
	Flood() (on bool, withheld map[failure.Reason]int)
	Flooded()
	Died(n int)
	Among(instances int)
	Inherit(r failure.Reason)
	Accept(r failure.Reason, n int)
	Unaccept() map[failure.Reason]int
}

// Config of an instance.
type Config struct {
	LeaveAfter time.Duration // held alone for so long, it leaves the groups
	Clock      func() time.Time
	Log        *slog.Logger
}

// How often an instance looks at the switch and at itself, and how often it tells the others although nothing has changed.
const (
	lookEvery = time.Second
	tellEvery = 5 * time.Second
)

// Instance is this one among the others. It works while Run does.
type Instance struct {
	cfg    Config
	pool   *pgxpool.Pool
	line   Line
	peers  peers
	member membership
	pause  atomic.Pointer[Pause] // as it was last read
	soon   chan struct{}         // a token when Run is to look at once

	told   failure.Reason // to the others
	toldAt time.Time

	inherited bool // what held the process before this one, and whether it was in a flood, was read
	flooded   bool // as it stands in the database
}

// New checks the settings.
func New(cfg Config, pool *pgxpool.Pool, line Line) (*Instance, error) {
	if cfg.LeaveAfter <= 0 || cfg.Clock == nil || cfg.Log == nil || pool == nil || line == nil {
		return nil, errors.New("fleet: a time to leave after, clock, log, pool and line are required")
	}
	return &Instance{cfg: cfg, pool: pool, line: line, peers: peers{pool, uuid.New()}, member: membership{back: make(chan struct{}, 1)}, soon: make(chan struct{}, 1)}, nil
}

// Run looks once a second until ctx is done, and takes its leave of the others then.
func (i *Instance) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			i.takeLeave()
			return nil
		case <-tick.C:
		case <-i.soon:
		}
		if err := i.Look(ctx); err != nil && ctx.Err() == nil {
			i.cfg.Log.Debug("the other instances are out of sight", "error", err) // readiness tells that the database is
		}
	}
}

// inherit reads, once, what holds the others or has held the process before this one.
func (i *Instance) inherit(ctx context.Context) error {
	if i.inherited {
		return nil
	}
	held, err := i.peers.holdThatLasts(ctx)
	if err != nil {
		return err
	}
	if held != "" {
		i.line.Inherit(held)
	}
	flood, err := floodThatLasts(ctx, i.pool)
	if err != nil {
		return err
	}
	if flood {
		i.line.Flooded()
	}
	died, err := diedLately(ctx, i.pool)
	if err != nil {
		return err
	}
	i.line.Died(died)
	i.inherited, i.flooded = true, flood
	return nil
}

// LookSoon makes Run look at once: a flood of dead letters is to be known before this process can be killed.
func (i *Instance) LookSoon() {
	select {
	case i.soon <- struct{}{}:
	default:
	}
}

// takeLeave ends in a second: without it the row goes stale.
func (i *Instance) takeLeave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = i.peers.leave(ctx)
}

// lookTimeout bounds one look.
const lookTimeout = 5 * time.Second

// Look obeys the switch, tells how this instance fares, and decides whether it belongs in the groups. An instance looks
// once before its consumers start, so that one that starts while paused starts paused.
func (i *Instance) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return errors.Join(i.obey(ctx), i.share(ctx), i.inherit(ctx), i.followFlood(ctx), i.tell(ctx), i.decide(ctx))
}

func (i *Instance) obey(ctx context.Context) error {
	pause, err := paused(ctx, i.pool)
	if err != nil {
		return err
	}
	i.pause.Store(pause)
	i.line.Pause(pause != nil)
	return nil
}

// Paused is what an operator said who has paused the consumption; nil: nobody has.
func (i *Instance) Paused() *Pause { return i.pause.Load() }

// tell writes at every change, and now and then as a sign of life.
func (i *Instance) tell(ctx context.Context) error {
	held, since := i.line.Held()
	if held == i.told && i.cfg.Clock().Sub(i.toldAt) < tellEvery {
		return nil
	}
	heldFor := i.ago(since)
	if held == "" {
		heldFor = nil
	}
	if err := i.peers.tell(ctx, held, heldFor, i.ago(i.line.Answered())); err != nil {
		return err
	}
	i.told, i.toldAt = held, i.cfg.Clock()
	return nil
}

func (i *Instance) ago(t time.Time) *time.Duration {
	if t.IsZero() {
		return nil
	}
	d := i.cfg.Clock().Sub(t)
	return &d
}
