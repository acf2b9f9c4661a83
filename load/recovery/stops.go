package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/netcut"
	"example.com/billing/load/rig"
)

const (
	stopWithin = 10 * time.Second // the promise
	stopSlack  = 10 * time.Second // before it is killed, so that a miss is measured
	concurrent = 256              // the default of BILLING_CONCURRENCY
)

// stopping is a state in which the service is asked to stop, while orders keep coming unless it is quiet.
type stopping struct {
	name  string
	quiet bool
	rules []providersim.Rule
	code  int // of the exit; 1 says that what was done could not be committed, so that it comes again
	reach func(ctx context.Context, s *scene, m *member) error
}

var stops = []stopping{
	{name: "idle", quiet: true, reach: settled},
	{name: "under load", reach: func(ctx context.Context, s *scene, _ *member) error { return s.awaitCharges(ctx, 5*steady) }},
	{name: "provider hangs, all slots taken", reach: allHang},
	{name: "held: provider answers 503", reach: held(provider(providersim.Status503))},
	{name: "broker gone", code: 1, reach: held(link("broker", netcut.Refuse))},
	{name: "database gone", reach: held(link("postgres", netcut.Refuse))},
	{name: "retries wait", quiet: true, rules: []providersim.Rule{{Kind: providersim.Status503, Share: 0.1, First: 1}}, reach: retriesWait},
}

// twice is a second signal while the first one is waited for.
var twice = stopping{name: "provider hangs, all slots taken", reach: allHang}

// settled waits until nothing is left to do.
func settled(ctx context.Context, s *scene, _ *member) error { return s.awaitAll(ctx, restWithin) }

func allHang(ctx context.Context, s *scene, _ *member) error {
	if err := s.provider.Sim.SetMode(providersim.Hang, time.Time{}); err != nil {
		return err
	}
	return rig.Await(ctx, 9*time.Second, func() error { // before the first of them gives up
		if n := s.provider.Sim.Summary().Statuses["hang"]; n < concurrent {
			return fmt.Errorf("%d requests hang", n)
		}
		return nil
	})
}

// held waits until the service says that it is not ready for the fault.
func held(set func(context.Context, *scene, *member, bool) error) func(context.Context, *scene, *member) error {
	return func(ctx context.Context, s *scene, m *member) error {
		if err := set(ctx, s, m, true); err != nil {
			return err
		}
		return rig.Await(ctx, 30*time.Second, func() error { return m.ready(ctx, 503) })
	}
}

func retriesWait(ctx context.Context, s *scene, _ *member) error {
	return rig.Await(ctx, 4*time.Second, func() error { // less than the first delay
		n, err := s.counted(ctx)
		if err == nil && n == 0 {
			err = errors.New("no retry waits")
		}
		return err
	})
}

// play stops the service in the state, mends what is broken, and sees that the next process charges what is left.
func (st stopping) play(ctx context.Context, s *scene) ([]figure, error) {
	m, before, err := st.reached(ctx, s)
	if err != nil {
		return nil, err
	}
	took, err := m.Stop(stopWithin + stopSlack)
	if err != nil {
		return nil, err
	}
	code := m.Ended().ExitCode()
	after, err := s.counted(ctx)
	if err != nil {
		return nil, err
	}
	rest, err := s.goOn(ctx, m)
	return append([]figure{
		within("exit", took, stopWithin), atMost("exit code", code, st.code), atMost("counted meanwhile", after-before, 0),
	}, rest...), err
}

// playTwice asks a second time, soon after.
func (st stopping) playTwice(ctx context.Context, s *scene) ([]figure, error) {
	m, before, err := st.reached(ctx, s)
	if err != nil {
		return nil, err
	}
	m.Signal(syscall.SIGTERM)
	rig.Pause(ctx, 500*time.Millisecond)
	took, err := m.Stop(stopWithin)
	if err != nil {
		return nil, err
	}
	after, err := s.counted(ctx)
	if err != nil {
		return nil, err
	}
	rest, err := s.goOn(ctx, m)
	return append([]figure{within("exit", took, time.Second), atMost("counted meanwhile", after-before, 0)}, rest...), err
}

// reached is an instance in the state, and how many failures were counted so far.
func (st stopping) reached(ctx context.Context, s *scene) (m *member, counted int, err error) {
	if m, err = s.warm(ctx, steady); err != nil {
		return nil, 0, err
	}
	if st.quiet {
		if err := s.endFlow(); err != nil {
			return nil, 0, err
		}
	}
	if err := st.reach(ctx, s, m); err != nil {
		return nil, 0, err
	}
	counted, err = s.counted(ctx)
	return m, counted, err
}

// goOn mends whatever may be broken and starts the next process, which has everything charged.
func (s *scene) goOn(ctx context.Context, m *member) ([]figure, error) {
	if err := errors.Join(s.provider.Sim.SetMode(providersim.OK, time.Time{}), m.Heal()); err != nil {
		return nil, err
	}
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	a, err := s.rest(ctx)
	return a.figures(), err
}
