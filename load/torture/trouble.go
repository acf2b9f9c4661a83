package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/torture/netcut"
)

// makeTrouble plays the plan's faults, each in its time, and returns when the last one has been undone.
func (s *stage) makeTrouble(ctx context.Context, began time.Time) {
	var all sync.WaitGroup
	for _, f := range s.plan.faults {
		all.Go(func() {
			pause(ctx, time.Until(began.Add(f.at)))
			s.times.note("begins: %s %s", f.target, f.name())
			undo, err := s.inflict(ctx, f)
			if err != nil {
				s.times.problem("the fault could not be made: %s: %v", f, err)
				return
			}
			pause(ctx, f.lasts)
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
		return nothing, s.database.terminate(ctx)
	case "read-only":
		return func() error { return s.database.readOnly(ctx, false) }, s.database.readOnly(ctx, true)
	case "crash":
		return func() error { return s.database.start(ctx) }, s.database.crash()
	case "provider":
		return func() error { return s.provider.sim.SetMode(providersim.OK, time.Time{}) }, s.provider.sim.SetMode(providersim.Kind(f.detail), time.Time{})
	case "network":
		_, to, _ := strings.Cut(f.target, "/")
		links := s.crew[f.number].links(to)
		return func() error { return setAll(links, netcut.Fault{Kind: netcut.None}) }, setAll(links, f.net)
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

func setAll(links []*netcut.Link, f netcut.Fault) error {
	for _, l := range links {
		if err := l.Set(f); err != nil {
			return err
		}
	}
	return nil
}
