package hold

import (
	"context"
	"math/rand/v2"
	"time"

	"example.com/billing/internal/failure"
)

// Enter returns at once while the line runs. While it is held it blocks until the line runs again, until this caller is
// the next probe, or until ctx is done. The caller calls leave when it has judged what became of its message.
func (l *Line) Enter(ctx context.Context) (leave func(), err error) {
	for {
		probe, changed := l.look()
		if changed == nil {
			return func() {}, nil
		}
		select {
		case <-changed:
		case <-probe:
			return l.probed, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look tells what to wait for; nothing while the line runs. The operator's pause has no probes: not even a bad message is
// handled.
func (l *Line) look() (probe, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.paused.IsZero():
		return nil, l.changed
	case l.reason != "":
		return l.probe, l.changed
	}
	return nil, nil
}

// probed asks for the next probe if the line is still held.
func (l *Line) probed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != "" {
		l.scheduleProbe()
	}
}

// scheduleProbe puts a token into the probe channel after a growing, jittered wait.
func (l *Line) scheduleProbe() {
	l.wait = min(max(2*l.wait, l.cfg.ProbeMin), l.cfg.ProbeMax)
	jittered := l.wait/2 + rand.N(l.wait/2+1)
	time.AfterFunc(jittered, func() {
		select {
		case l.probe <- struct{}{}:
		default:
		}
	})
}

// Pause follows the operator's switch. A fault that held the line before still holds it after.
func (l *Line) Pause(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pause(on)
}

func (l *Line) pause(on bool) {
	switch {
	case on == !l.paused.IsZero():
		return
	case on:
		l.paused = l.cfg.Clock()
		l.cfg.Log.Warn("line held", "reason", failure.OperatorPause)
	default:
		l.cfg.Log.Info("line runs again", "reason", failure.OperatorPause, "held", l.cfg.Clock().Sub(l.paused).Round(time.Millisecond))
		l.paused = time.Time{}
	}
	l.transition(failure.OperatorPause, on)
	l.wake()
}

// wake lets those who wait look again.
func (l *Line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}
