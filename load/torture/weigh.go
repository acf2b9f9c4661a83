package main

import (
	"context"
	"fmt"
	"os"

	"example.com/billing/load/rig"
)

// weight is what a process holds.
type weight struct{ files, goroutines, peak int }

// Bounds of what an instance may hold at rest above what it held at its start: idle connections to the provider and the
// database, each with its goroutines, are not yet closed.
const (
	moreFiles      = concurrency + 24
	filesPerBroker = 12 // the clients of an instance, two connections each
	moreGoroutines = 4*concurrency + 48
	maxPeak        = 200 << 20
)

// weighAtRest looks for leaks.
func (s *stage) weighAtRest(ctx context.Context) {
	for _, i := range s.crew {
		w, err := i.weigh(ctx)
		switch {
		case err != nil:
			s.times.problem("%s cannot be weighed: %v", i.Name, err)
		case w.files > i.atStart.files+moreFiles+filesPerBroker*len(s.kafka.addresses()):
			s.times.problem("%s has %d files open at rest, %d at its start", i.Name, w.files, i.atStart.files)
		case w.goroutines > i.atStart.goroutines+moreGoroutines:
			s.times.problem("%s has %d goroutines at rest, %d at its start", i.Name, w.goroutines, i.atStart.goroutines)
		case w.peak > maxPeak:
			s.times.problem("%s took %d MB at its peak", i.Name, w.peak>>20)
		}
	}
}

// weigh asks the kernel, and the process for its goroutines.
func (i *instance) weigh(ctx context.Context) (w weight, err error) {
	p := i.running()
	if p == nil {
		return w, fmt.Errorf("%s does not run", i.Name)
	}
	if w, err = weightOf(p.PID()); err != nil {
		return w, err
	}
	n, err := i.Metric(ctx, "go_goroutines")
	w.goroutines = int(n)
	return w, err
}

func weightOf(pid int) (w weight, err error) {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return w, err
	}
	usage, err := rig.UsageOf(pid)
	w.files, w.peak = len(files), usage.Peak
	return w, err
}
