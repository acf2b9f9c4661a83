package rig

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Await asks again and again until there is nothing to complain of, and returns the last complaint when time is up.
func Await(ctx context.Context, within time.Duration, complaint func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := complaint()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", within, err)
		case <-tick.C:
		}
	}
}

// AwaitCalm is Await until there was nothing to complain of so many times in a row.
func AwaitCalm(ctx context.Context, within time.Duration, times int, complaint func() error) error {
	calm := 0
	return Await(ctx, within, func() error {
		if err := complaint(); err != nil {
			calm = 0
			return err
		}
		if calm++; calm < times {
			return errors.New("calm for a moment only")
		}
		return nil
	})
}

// Pause waits, unless ctx ends first.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
