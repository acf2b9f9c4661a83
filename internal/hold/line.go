// Package hold stops the line while a fault concerns everyone, and lets it run again by itself.
//
// Without it an hour's outage, or an expired password, would walk every waiting order through the retry topics into the
// dead letters. While the line is held no attempt is counted and no offset moves; one message after another probes, at
// growing waits of at most about a second, whether or not the one before was answered: a provider that hangs would else
// keep the line held for a whole timeout after its cure. It decides only between "this message" and "everyone"; where a
// message goes is retry's matter.
package hold

import (
	"log/slog"
	"sync"
	"time"

	"example.com/billing/internal/failure"
)

// Config of a line. The breaker's numbers are hazards.md, "Breaker".
type Config struct {
	Policy       failure.Policy
	BreakerRun   int           // failures of distinct orders in a row that open the breaker
	BreakerPair  time.Duration // or two failures this far apart, with no success between
	FloodCount   int           // dead letters in a minute that hold the line; 0: off, and off under the document's policy
	FloodRatio   float64       // if they are at least this share of all messages
	ProbeMin     time.Duration // first wait before a probe
	ProbeMax     time.Duration // longest wait
	Clock        func() time.Time
	Log          *slog.Logger
	OnTransition func(held failure.Reason, on bool) // for metrics; may be nil
}

// Line is one gate for all consumers of an instance: the retry tiers wait with the main topic.
type Line struct {
	cfg Config

	mu       sync.Mutex
	reason   failure.Reason // of the fault that holds the line; empty: none
	since    time.Time
	ended    time.Time     // when the last hold did
	holds    int           // so far: a timer of an earlier one must not probe in this one
	paused   time.Time     // when the operator's switch was found on; zero: it is off
	changed  chan struct{} // closed when those who wait must look again
	probe    chan struct{} // holds one token when a probe is due
	due      *time.Timer   // puts it there, or has; nil: none is due
	probing  int           // probes under way
	wait     time.Duration
	provider breaker
	database breaker
	suspects suspects
	flood    flood
}

// NewLine makes a running line.
func NewLine(cfg Config) *Line {
	if cfg.Policy == failure.Document {
		cfg.FloodCount = 0
	}
	return &Line{
		cfg: cfg, changed: make(chan struct{}), probe: make(chan struct{}, 1),
		provider: breaker{run: cfg.BreakerRun, pair: cfg.BreakerPair},
		database: breaker{run: cfg.BreakerRun, pair: cfg.BreakerPair},
		suspects: suspects{since: map[string]suspicion{}},
		flood:    flood{count: cfg.FloodCount, ratio: cfg.FloodRatio},
	}
}

// Judge says whose fault a failure is, knowing how the others fare; nil means charged, now or before. began is when this
// attempt began; it is answered when the provider took a decision in it, so it worked then. It is called once for every
// handled message. order distinguishes orders; it is empty when the message could not be decoded.
func (l *Line) Judge(order string, f *failure.Error, began time.Time, answered bool) failure.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if answered {
		l.provider.reset(l.cfg.Clock())
		l.database.reset(l.cfg.Clock())
		if began.After(l.suspects.answered) {
			l.suspects.answered = began
		}
	}
	cured := answered && !began.Before(l.since) // what was under way when it broke proves nothing
	if cured && providers(l.reason) || f == nil && !providers(l.reason) {
		l.release()
	}
	if f == nil {
		l.flood.note(false, l.cfg.Clock())
		l.probeAgain(answered)
		return 0
	}
	if l.belated(f, began) {
		return failure.OfSystem
	}
	fault := l.judge(order, f, began)
	if fault == failure.OfMessage && (l.reason == failure.DeadLetterFlood || l.flood.note(true, l.cfg.Clock())) {
		f.Reason, fault = failure.DeadLetterFlood, failure.OfSystem
	}
	switch fault {
	case failure.OfSystem:
		l.hold(f.Reason)
	case failure.OfMessage:
		l.probeAgain(answered)
	}
	return fault
}

// belated reports whether the failure is a dependency's and of an attempt that began before the line last ran again. It
// belongs to the outage that is over: it is not counted, and holds nobody again.
func (l *Line) belated(f *failure.Error, began time.Time) bool {
	if !began.Before(l.ended) {
		return false
	}
	_, systemic := l.breakerOf(f.Reason)
	fault := f.Fault(l.cfg.Policy)
	return systemic != "" || fault == failure.OfSuspect || fault == failure.OfSystem
}

// Published tells that the retry or dead-letter record of a message was written: broker and database work.
func (l *Line) Published() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !providers(l.reason) && l.reason != failure.DeadLetterFlood {
		l.release()
	}
}

func (l *Line) judge(order string, f *failure.Error, began time.Time) failure.Fault {
	fault := f.Fault(l.cfg.Policy)
	switch fault {
	case failure.OfSuspect:
		return l.suspects.judge(order, f.Reason, l.cfg.Clock(), l.reason != "")
	case failure.OfDependency:
		if b, systemic := l.breakerOf(f.Reason); b != nil {
			if b.failed(order, began, l.cfg.Clock()) || l.reason == systemic {
				f.Reason = systemic
				return failure.OfSystem
			}
		}
	}
	return fault
}

// breakerOf finds the breaker that watches the reason, and what it holds the line for.
func (l *Line) breakerOf(r failure.Reason) (*breaker, failure.Reason) {
	switch r {
	case failure.ProviderTimeout, failure.ProviderUnreachable, failure.ProviderReset, failure.Provider5xx, failure.ProviderBadAnswer:
		if l.cfg.Policy.Fault(failure.ProviderDown) == failure.OfSystem {
			return &l.provider, failure.ProviderDown
		}
	case failure.DatabaseBusy:
		return &l.database, failure.DatabaseDown
	}
	return nil, ""
}

// hold stops the line. The first reason stays while it lasts; a probe that meets another one replaces it.
func (l *Line) hold(r failure.Reason) {
	switch r {
	case failure.OperatorPause: // a claim met the switch before we had read it
		l.pause(true)
		return
	case l.reason:
		return
	}
	first := l.reason == ""
	if !first {
		l.transition(l.reason, false)
	}
	l.reason = r
	l.transition(r, true)
	l.cfg.Log.Error("line held", "reason", r)
	if first {
		l.since, l.wait, l.due = l.cfg.Clock(), 0, nil
		l.holds++
		l.scheduleProbe()
	}
}

// release lets the line run again. Its callers know the proof of the cure: a provider's fault ends only with an answer of
// the provider, any other with a message that has its fate.
func (l *Line) release() {
	if l.reason == "" {
		return
	}
	l.cfg.Log.Info("line runs again", "reason", l.reason, "held", l.cfg.Clock().Sub(l.since).Round(time.Millisecond))
	l.transition(l.reason, false)
	l.reason, l.ended = "", l.cfg.Clock()
	l.provider.reset(l.cfg.Clock())
	l.database.reset(l.cfg.Clock())
	l.flood.reset()
	select {
	case <-l.probe: // nobody needs it any more
	default:
	}
	l.wake()
}

func providers(r failure.Reason) bool {
	switch r {
	case failure.ProviderDown, failure.ProviderUnauthorized, failure.ProviderMisaddressed, failure.ProviderTLS:
		return true
	}
	return false
}

func (l *Line) transition(r failure.Reason, on bool) {
	if l.cfg.OnTransition != nil {
		l.cfg.OnTransition(r, on)
	}
}

// Held tells why the line is held and since when; an empty reason means that it runs. The operator's pause comes first.
func (l *Line) Held() (failure.Reason, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.paused.IsZero() {
		return failure.OperatorPause, l.paused
	}
	return l.reason, l.since
}

// Answered is when the latest attempt began that the provider took a decision in; zero if there was none.
func (l *Line) Answered() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.suspects.answered
}
