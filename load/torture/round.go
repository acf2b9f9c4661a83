package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/load/rig"
	"example.com/billing/load/torture/verdict"
)

// outcome is what a round came to.
type outcome struct {
	plan    plan
	took    time.Duration
	verdict *verdict.Verdict // nil when there was none
	err     error            // what kept the round from a verdict
	wrong   []string         // what is wrong besides the verdict
	nudged  int
	dir     string // kept when the round failed
}

func (o outcome) passed() bool {
	return o.err == nil && len(o.wrong) == 0 && o.verdict != nil && o.verdict.Passed()
}

// play plays one round.
func play(ctx context.Context, o options, seed uint64) (out outcome) {
	began := time.Now()
	out.plan = drawPlan(seed, o.surroundings)
	dir, err := o.roundDir(seed)
	if err != nil {
		out.err = err
		return out
	}
	out.dir = dir
	s, err := setUp(ctx, o, out.plan, dir)
	if err != nil {
		out.err = fmt.Errorf("set up: %w", err)
		return out
	}
	var evidence verdict.Case
	if out.err = s.raise(ctx); out.err == nil {
		out.verdict, evidence, out.err = s.play(ctx)
	}
	out.wrong, out.nudged = s.times.found(), s.nudged
	if !out.passed() {
		out.err = errors.Join(out.err, s.dump(out, evidence))
	}
	out.err = errors.Join(out.err, s.tearDown())
	out.took = time.Since(began)
	if out.passed() {
		out.err = os.RemoveAll(dir)
	}
	return out
}

// play makes orders and trouble, heals, waits for rest and judges.
func (s *stage) play(ctx context.Context) (*verdict.Verdict, verdict.Case, error) {
	began := time.Now()
	watch, stopWatch := context.WithCancel(ctx)
	var watching, trouble sync.WaitGroup
	var commits []verdict.Commit
	watching.Go(func() { commits = s.watchCommits(watch) })
	trouble.Go(func() { s.makeTrouble(ctx, began) })
	events, err := s.sell(ctx, began)
	trouble.Wait()
	if err == nil {
		err = s.heal(ctx)
	}
	if err == nil {
		err = s.awaitRest(ctx, events)
		s.times.note("rest: %v", err)
	}
	stopWatch()
	watching.Wait()
	if err == nil {
		s.weighAtRest(ctx)
		s.stopAll(ctx)
	}
	return s.judge(ctx, events, commits, began, err)
}

// judge judges also a round that found no rest: what is missing then is the best explanation.
func (s *stage) judge(ctx context.Context, events []loadgen.Event, commits []verdict.Commit, began time.Time, restless error) (*verdict.Verdict, verdict.Case, error) {
	evidence, err := s.gather(ctx, events, commits, began)
	if err = errors.Join(restless, err); err != nil && restless == nil {
		return nil, evidence, err
	}
	return verdict.Of(evidence), evidence, err
}

// stopAll stops the instances, in a world where nothing is broken, and sees that nothing of them is left.
func (s *stage) stopAll(ctx context.Context) {
	var all sync.WaitGroup
	for _, i := range s.all() {
		all.Go(func() {
			i.want(false)
			i.stop(true)
			if err := rig.Await(ctx, 5*time.Second, func() error {
				if n := i.Connections(); n > 0 {
					return fmt.Errorf("%d connections are still open", n)
				}
				return nil
			}); err != nil {
				s.times.problem("%s has ended: %v", i.Name, err)
			}
		})
	}
	all.Wait()
}

func (o options) roundDir(seed uint64) (string, error) {
	dir := filepath.Join(o.dir, fmt.Sprintf("seed-%d", seed))
	return dir, os.MkdirAll(dir, 0o755)
}
