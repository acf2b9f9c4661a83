package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/netcut"
	"example.com/billing/load/rig"
	"example.com/billing/load/torture/verdict"
)

// makeTrouble plays the plan's faults, each in its time, and returns when the last one has been undone.
func (s *stage) makeTrouble(ctx context.Context, began time.Time) {
	var all sync.WaitGroup
	for _, f := range s.plan.faults {
		all.Go(func() {
			rig.Pause(ctx, time.Until(began.Add(f.at)))
			defer s.reserve(f)() // to undo a fault may take longer than the plan thought
			s.times.note("begins: %s %s", f.target, f.name())
			from := time.Now()
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
			s.noteOutage(f, from)
		})
	}
	all.Wait()
}

// reserve waits for the fault's targets and takes them; release gives them back.
func (s *stage) reserve(f fault) (release func()) {
	var taken []*sync.Mutex
	for _, name := range slices.Sorted(slices.Values(f.targets())) { // in one order, so that no two wait for each other
		s.mu.Lock()
		if s.targets[name] == nil {
			s.targets[name] = new(sync.Mutex)
		}
		target := s.targets[name]
		s.mu.Unlock()
		target.Lock()
		taken = append(taken, target)
	}
	return func() {
		for _, t := range taken {
			t.Unlock()
		}
	}
}

// noteOutage keeps what the verdict asks of a fault that has ended.
func (s *stage) noteOutage(f fault, from time.Time) {
	o := verdict.Outage{
		Name: f.target + " " + f.name(), From: from, To: time.Now(), Refuses: f.kind == "refusal", Page: strings.HasSuffix(f.detail, "-page"),
		LookUps: f.kind == "unsure", Partly: !f.everybodys(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outages = append(s.outages, o)
}

// inflict makes a fault and returns what undoes it.
func (s *stage) inflict(ctx context.Context, f fault) (undo func() error, err error) {
	if f.ofProvider() {
		return s.setMode(providersim.OK), s.setMode(providersim.Kind(f.detail))()
	}
	switch f.kind {
	case "kill", "stop", "freeze", "freeze-long":
		return s.hurtInstance(s.crew[f.number], f.kind), nil
	case "join":
		s.guest.want(true)
		return func() error { s.guest.stop(false); return nil }, nil
	case "restarts":
		return s.restartAll(ctx, providersim.Kind(f.detail))
	case "delays":
		return s.changeDelays(ctx)
	case "deploy":
		return s.deploy(ctx)
	case "broker-kill":
		return func() error { return s.kafka.restart(f.number) }, s.kafka.kill(f.number)
	case "broker-freeze":
		return func() error { return s.kafka.thaw(f.number) }, s.kafka.freeze(f.number)
	case "fatal", "refused":
		return s.spoilPublishes(f)
	case "network":
		_, to, _ := strings.Cut(f.target, "/")
		i := s.crew[f.number]
		return func() error { return i.Break(to, netcut.Fault{Kind: netcut.None}) }, i.Break(to, f.net)
	case "flood":
		return s.flood(ctx, f)
	case "clock":
		return nothing, s.publishAhead(ctx)
	}
	return s.hurtDatabase(ctx, f)
}

func nothing() error { return nil }

func (s *stage) setMode(k providersim.Kind) func() error {
	return func() error { return s.provider.Sim.SetMode(k, time.Time{}) }
}

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

// restartTimes is how often restarts go through all instances.
const restartTimes = 3

// restartAll restarts all instances cleanly, one after the other and again, while the provider is away.
func (s *stage) restartAll(ctx context.Context, outage providersim.Kind) (undo func() error, err error) {
	var rolling sync.WaitGroup
	rolling.Go(func() {
		for range restartTimes {
			s.roll(ctx, func(*instance) {})
		}
	})
	return func() error {
		rolling.Wait()
		return s.setMode(providersim.OK)()
	}, s.setMode(outage)()
}

// roll stops and starts the instances one after the other, each when the one before serves; between is done while it is
// stopped.
func (s *stage) roll(ctx context.Context, between func(*instance)) {
	for _, i := range s.crew {
		i.stop(false)
		served := len(i.Served())
		between(i)
		i.want(true)
		err := rig.Await(ctx, 15*time.Second, func() error {
			if len(i.Served()) == served {
				return fmt.Errorf("%s does not serve", i.Name)
			}
			return nil
		})
		s.times.note("%s restarted: %v", i.Name, err) // it may be unable to while other things are broken
	}
}

// spoilPublishes lets the brokers' answers to one instance's publishes be those of the fault: some of them, or all.
func (s *stage) spoilPublishes(f fault) (undo func() error, err error) {
	cluster, most := s.crew[f.number].Brokers, 2
	if f.kind == "refused" {
		most = 1 << 30
	}
	undo = func() error { return cluster.SpoilPublishes("", 0) }
	return undo, cluster.SpoilPublishes(f.detail, most)
}
