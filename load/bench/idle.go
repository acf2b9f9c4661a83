package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// idle is what the service takes when there is nothing to do.
type idle struct {
	Ready time.Duration `json:"ready_ns"`      // from the start of the process to /readyz 200
	CPU   float64       `json:"cpu_of_a_core"` // over the window
	RSS   int           `json:"rss_bytes"`
}

const (
	settleIn   = 5 * time.Second // after the start, for the groups to form
	idleWindow = 10 * time.Second
)

func measureIdle(ctx context.Context, l *lab, o options, r *report) (err error) {
	if !slices.Contains(o.programs, "service") {
		return nil
	}
	t, err := newTrial(ctx, l, "service", 256)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	if err := t.start(); err != nil {
		return err
	}
	var m idle
	if m.Ready, err = t.ready(ctx); err != nil {
		return err
	}
	window := idleWindow
	if o.quick {
		window /= 2
	}
	var seen []sample
	if err := t.watch(ctx, 1, time.Second, settleIn+window, func(s sample) { seen = append(seen, s) }); err != nil {
		return err
	}
	from := seen[slices.IndexFunc(seen, func(s sample) bool { return s.at.Sub(seen[0].at) >= settleIn })]
	to := seen[len(seen)-1]
	m.CPU = (to.usage.CPU - from.usage.CPU).Seconds() / to.at.Sub(from.at).Seconds()
	m.RSS = to.usage.RSS
	r.Idle = &m
	say("service ready after %s, idle %.1f %% of a core", millis(m.Ready), 100*m.CPU)
	return nil
}

// ready asks until the service says that it is, and returns how long after its start that was.
func (t *trial) ready(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if t.isReady(ctx) {
			return time.Since(t.child.Started), nil
		}
		select {
		case <-tick.C:
		case <-t.child.Exited():
			return 0, errors.Join(errors.New("the service ended by itself"), t.child.Failure())
		case <-ctx.Done():
			return 0, fmt.Errorf("the service was not ready in time, see %s: %w", t.child.Log, ctx.Err())
		}
	}
}

func (t *trial) isReady(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.http+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := (&http.Client{Timeout: time.Second}).Do(req)
	if err != nil {
		return false // it does not listen yet
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}
