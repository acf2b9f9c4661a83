package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/netcut"
	"example.com/billing/load/rig"
)

// makeTrouble plays the plan's faults, each in its time, and returns when the last one has been undone.
func (s *stage) makeTrouble(ctx context.Context, began time.Time) {
	var all sync.WaitGroup
	for _, f := range s.plan.faults {
		all.Go(func() {
			rig.Pause(ctx, time.Until(began.Add(f.at)))
			s.times.note("begins: %s %s", f.target, f.name())
			undo, err := s.inflict(ctx, f)
			if err != nil {
				s.times.problem("the fault could not be made: %s: %v", f, err)
				return
			}
			rig.Pause(ctx, f.lasts)
			if err := undo(); err != nil {
				s.times.problem("the fault could not be undone: %s: %v", f, err)
				return
			}
			s.times.note("ends:   %s %s", f.target, f.name())
		})
	}
	all.Wait()
}

// inflict makes a fault and returns what undoes it.
func (s *stage) inflict(ctx context.Context, f fault) (undo func() error, err error) {
	switch f.kind {
	case "kill", "stop", "freeze", "freeze-long":
		return s.hurtInstance(s.crew[f.number], f.kind), nil
	case "join":
		s.guest.want(true)
		return func() error { s.guest.stop(false); return nil }, nil
	case "broker-kill":
		return func() error { return s.kafka.restart(f.number) }, s.kafka.kill(f.number)
	case "broker-freeze":
		return func() error { return s.kafka.thaw(f.number) }, s.kafka.freeze(f.number)
	case "terminate":
		return nothing, s.database.Terminate(ctx)
	case "read-only":
		return func() error { return s.database.ReadOnly(ctx, false) }, s.database.ReadOnly(ctx, true)
	case "crash":
		return func() error { return s.database.Start(ctx) }, s.database.Crash()
	case "provider":
		return func() error { return s.provider.Sim.SetMode(providersim.OK, time.Time{}) }, s.provider.Sim.SetMode(providersim.Kind(f.detail), time.Time{})
	case "network":
		_, to, _ := strings.Cut(f.target, "/")
		i := s.crew[f.number]
		return func() error { return i.Break(to, netcut.Fault{Kind: netcut.None}) }, i.Break(to, f.net)
	}
	return nil, fmt.Errorf("nobody knows how to make %q", f.kind)
}

func nothing() error { return nil }

func (*stage) hurtInstance(i *instance, how string) (undo func() error) {
	comeBack := func() error { i.want(true); return nil }
	switch how {
	case "kill":
		i.kill()
		return comeBack
	case "stop":
		i.stop(false)
		return comeBack
	default:
		i.freeze()
		return func() error { i.thaw(); return nil }
	}
}
