package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// cleanups close what was opened, last first, each under its name, and all within a time. One is added when its resource
// exists, so that a start that fails half way is undone as well.
type cleanups struct {
	within time.Duration
	began  atomic.Pointer[time.Time] // when the stop began; nil: not yet
	all    []cleanup
}

type cleanup struct {
	name string
	run  func(context.Context) error
}

// newCleanups counts the time from the end of ctx, so that what consumers take to drain is part of it.
func newCleanups(ctx context.Context, within time.Duration) *cleanups {
	c := &cleanups{within: within}
	context.AfterFunc(ctx, func() { now := time.Now(); c.began.Store(&now) })
	return c
}

func (c *cleanups) add(name string, run func(context.Context) error) {
	c.all = append(c.all, cleanup{name, run})
}

// run runs them. One that does not end in time is left behind and named.
func (c *cleanups) run() error {
	left := c.within
	if began := c.began.Load(); began != nil {
		left = max(leastCleanup, c.within-time.Since(*began))
	}
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	var errs []error
	for i := len(c.all) - 1; i >= 0; i-- {
		step := c.all[i]
		done := make(chan error, 1)
		go func() { done <- step.run(ctx) }()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, context.Canceled) {
				errs = append(errs, fmt.Errorf("stop %s: %w", step.name, err))
			}
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("stop %s: not done within %s", step.name, c.within))
		}
	}
	return errors.Join(errs...)
}

// leastCleanup is for closing connections when draining took all the time.
const leastCleanup = 300 * time.Millisecond

// joinStop keeps the first error in front: it is why the service stopped.
func joinStop(err, stopErr error) error {
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, stopErr)
}
