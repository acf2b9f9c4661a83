package hold

import (
	"time"

	"example.com/billing/internal/failure"
)

// Flood counts the withheld verdicts by reason, and says whether there is a flood.
func (l *Line) Flood() (on bool, withheld map[failure.Reason]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flood.tick(l.cfg.Clock())
	l.flood.sweep()
	l.tellFlood()
	return l.flooded, l.flood.reasons()
}

// Flooded starts the line in a flood that lasted when the process before this one ended: a restart must not let the first
// ones of it die (hazard H25).
func (l *Line) Flooded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flood.tick(l.cfg.Clock())
	l.flood.begin()
	l.tellFlood()
}

// Died tells of dead letters that were written within the last minute, before this process could count: a restart must not
// let as many die again (hazard H25).
func (l *Line) Died(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flood.tick(l.cfg.Clock())
	for range min(n, l.flood.share()-1) {
		l.flood.note(unknown)
	}
}

// Accept lets so many messages die for the reason although there is a flood: a person has looked at them.
func (l *Line) Accept(r failure.Reason, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flood.accepted[r] += n
}

// Unaccept takes back, by reason, what was accepted and no message needs here: another instance may need it.
func (l *Line) Unaccept() map[failure.Reason]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flood.tick(l.cfg.Clock())
	return l.flood.unused()
}

// stopFloodTime stops the flood's time, or lets it go on, as the line is held or runs.
func (l *Line) stopFloodTime() {
	l.flood.tick(l.cfg.Clock())
	l.flood.stopped = l.reason != "" || !l.paused.IsZero()
}

// tellFlood logs and counts the begin and the end of a flood. Its end is not an event, so whoever looks finds it.
func (l *Line) tellFlood() {
	now := l.cfg.Clock()
	l.flood.tick(now)
	on := l.flood.on()
	if on == l.flooded {
		return
	}
	l.flooded = on
	l.transition(failure.DeadLetterFlood, on)
	if on {
		l.floodSince = now
		l.cfg.Log.Error("too many messages die: dead letters are withheld", "waiting", l.flood.reasons())
		return
	}
	clear(l.flood.accepted)
	l.cfg.Log.Info("dead letters are written again", "withheld", now.Sub(l.floodSince).Round(time.Second).String())
}

// Among tells how many instances, this one included, share the limit of the flood.
func (l *Line) Among(instances int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flood.tick(l.cfg.Clock())
	l.flood.among(instances)
}
