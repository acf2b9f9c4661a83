package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// await asks again and again until there is nothing to complain of, and returns the last complaint when time is up.
func await(ctx context.Context, within time.Duration, complaint func() error) error {
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

// awaitCalm is await until there was nothing to complain of so many times in a row.
func awaitCalm(ctx context.Context, within time.Duration, times int, complaint func() error) error {
	calm := 0
	return await(ctx, within, func() error {
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

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
