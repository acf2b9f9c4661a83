package hold

import (
	"context"
	"math/rand/v2"
	"time"

	"example.com/billing/internal/failure"
)

// Enter returns at once while the line runs. While it is held it blocks until the line runs again, until this caller is
// a probe, or until ctx is done. The caller calls leave when it has judged what became of its message.
func (l *Line) Enter(ctx context.Context) (leave func(), err error) {
	for {
		probe, changed := l.look()
		if changed == nil {
			return func() {}, nil
		}
		select {
		case <-changed:
		case <-probe:
			l.probed(1)
			return func() { l.probed(-1) }, nil
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

// maxProbes bounds the requests that a provider which hangs gets meanwhile.
const maxProbes = 16

// probed notes that a probe begins or has been judged; in both cases the next one may be due.
func (l *Line) probed(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probing += n
	if n > 0 {
		l.due = nil
	}
	l.scheduleProbe()
}

// scheduleProbe puts a token into the probe channel after a growing, jittered wait, unless one is due already or too many
// probes are under way.
func (l *Line) scheduleProbe() {
	if l.reason == "" || l.due != nil || l.probing >= maxProbes {
		return
	}
	l.wait = min(max(2*l.wait, l.cfg.ProbeMin), l.cfg.ProbeMax)
	hold := l.holds
	l.due = time.AfterFunc(l.wait/2+rand.N(l.wait/2+1), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.reason != "" && l.holds == hold {
			l.probeNow()
		}
	})
}

func (l *Line) probeNow() {
	select {
	case l.probe <- struct{}{}:
	default:
	}
}

// probeAgain lets the next probe go at once when this one has proved nothing: it was charged before, or cannot be charged
// at all, and the provider was not asked; or the broker is down and nothing had to be published. Hundreds of those may stand
// first after a partition was taken over, and at a probe a second the line would stay held for minutes after the cure
// (torture, seed 9064). Whoever proves the cure has ended the hold before.
func (l *Line) probeAgain() {
	if l.reason != "" && l.due != nil && l.due.Stop() {
		l.probeNow()
	}
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
		l.cfg.Log.Info("line runs again", "reason", failure.OperatorPause, "held", l.cfg.Clock().Sub(l.paused).Round(time.Millisecond).String())
		l.paused = time.Time{}
	}
	l.stopFloodTime()
	l.transition(failure.OperatorPause, on)
	l.wake()
}

// wake lets those who wait look again.
func (l *Line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}
