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
	FloodCount   int           // dead letters in a minute, of all instances, that hold the line; 0: off, and off under the document's policy
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

	mu          sync.Mutex
	reason      failure.Reason // of the fault that holds the line; empty: none
	since       time.Time
	ended       time.Time     // when the last hold did
	holds       int           // so far: a timer of an earlier one must not probe in this one
	paused      time.Time     // when the operator's switch was found on; zero: it is off
	changed     chan struct{} // closed when those who wait must look again
	probe       chan struct{} // holds one token when a probe is due
	due         *time.Timer   // puts it there, or has; nil: none is due
	probing     int           // probes under way
	wait        time.Duration
	breakers    map[failure.Reason]*breaker // by what they hold the line for
	unpublished unpublished
	suspects    suspects
	partial     partial
	flood       flood
	flooded     bool // as it was last told

	floodSince time.Time
}

// NewLine makes a running line.
func NewLine(cfg Config) *Line {
	if cfg.Policy == failure.Document {
		cfg.FloodCount = 0
	}
	l := &Line{
		cfg: cfg, changed: make(chan struct{}), probe: make(chan struct{}, 1),
		breakers: map[failure.Reason]*breaker{}, unpublished: unpublished{},
		suspects: suspects{since: map[string]suspicion{}},
		flood:    flood{count: cfg.FloodCount, ratio: cfg.FloodRatio, now: cfg.Clock(), ticked: cfg.Clock(), waiting: map[string]withheld{}, accepted: map[failure.Reason]int{}},
	}
	for _, r := range failure.Outages() {
		l.breakers[r] = &breaker{run: cfg.BreakerRun, pair: cfg.BreakerPair}
	}
	// A burst beyond a rate limit ends in a run of refusals by nature. It is an outage when nothing else comes.
	l.breakers[failure.ProviderRateLimited].run = 0
	return l
}

// Attempt is one handling of a message.
type Attempt struct {
	Record   string    // topic/partition/offset of the message
	Order    string    // empty when it could not be decoded
	Began    time.Time // when the attempt began
	Answered bool      // the provider took a decision in it, so it worked then
	First    bool      // nobody tried this message before
	Earlier  int       // how often it has failed before, counted or not
	Last     bool      // one more counted failure is its end
	To       string    // the topic that did not take its record; empty: none was published
}

// Judge says whose fault a failure is, knowing how the others fare; nil means charged, now or before. It is called once for
// every attempt.
func (l *Line) Judge(a Attempt, f *failure.Error) failure.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.cfg.Clock()
	l.learn(a, f == nil, now)
	if f == nil {
		l.flood.tick(now)
		l.flood.good(a.Record)
		l.probeAgain()
		return 0
	}
	if l.belated(f, a.Began) {
		return failure.OfSystem
	}
	fault := l.judge(a, f, now)
	switch fault {
	case failure.OfSystem:
		if f.Reason.Cure() == failure.ByPublication {
			l.unpublished.note(a.Record, a.To, now)
		}
		l.hold(f)
	case failure.OfMessage:
		if l.reason.Cure() == failure.ByAnswer { // in any other hold its fate is still to be written, which is the probe
			l.probeAgain()
		}
	}
	return fault
}

// learn takes an attempt as a sign of life of those who took part in it, and ends a hold that it proves cured. What was
// under way when the outage began proves nothing.
func (l *Line) learn(a Attempt, charged bool, now time.Time) {
	for r, b := range l.breakers {
		if cure := r.Cure(); cure == failure.ByAnswer && a.Answered || cure == failure.ByFate && (charged || a.Answered) {
			b.reset(now)
		}
	}
	if a.Answered && a.Began.After(l.suspects.answered) {
		l.suspects.answered = a.Began
	}
	if a.Answered {
		l.partial.note(a, false, now)
	}
	switch l.reason.Cure() {
	case failure.ByAnswer:
		if a.Answered && !a.Began.Before(l.since) {
			l.release()
		}
	case failure.ByFate:
		if charged {
			l.release()
		}
	case failure.ByPublication:
		if charged && l.unpublished.settled(a.Record, now) {
			l.release()
		}
	}
}

// belated reports whether the failure may be an outage's and is of an attempt that began before the line last ran again. It
// belongs to the outage that is over: it is not counted, and holds nobody again.
func (l *Line) belated(f *failure.Error, began time.Time) bool {
	return began.Before(l.ended) && f.Fault(l.cfg.Policy) != failure.OfMessage && l.watched(f.Reason)
}

// watched reports whether the failure can be an outage under the policy: the design document's plain table knows none of
// the provider's.
func (l *Line) watched(r failure.Reason) bool {
	outage := r.Outage()
	return outage != "" && (l.cfg.Policy != failure.Document || outage.Cure() != failure.ByAnswer)
}

// judge asks the breaker of the outage that the failure may belong to.
//
// What fails while the provider holds the line belongs to that outage, whatever it is: it is not counted, and neither
// begins a suspicion nor confirms one. An order that probed in one outage and meets the next one is not the culprit of
// either (torture, seed 21029). In any other hold a failure goes its way: the record that it publishes is the probe.
func (l *Line) judge(a Attempt, f *failure.Error, now time.Time) failure.Fault {
	fault := f.Fault(l.cfg.Policy)
	switch fault {
	case failure.OfDependency, failure.OfMoment, failure.OfSuspect:
	default:
		return fault
	}
	if !l.watched(f.Reason) {
		return fault
	}
	outage := f.Reason.Outage()
	ofProvider := outage.Cure() == failure.ByAnswer
	if ofProvider && fault == failure.OfDependency { // also while the line is held: what probes meet then tells as much
		l.partial.note(a, true, now)
	}
	if l.breakers[outage].failed(a.Order, a.Began, now) || l.reason == outage || l.reason.Cure() == failure.ByAnswer {
		f.Reason = outage
		return failure.OfSystem
	}
	if fault == failure.OfSuspect {
		if fault = l.suspects.judge(a.Order, f.Reason, now); ofProvider && fault == failure.OfDependency {
			l.partial.note(a, true, now)
		}
	}
	if fault != failure.OfDependency {
		return fault
	}
	if ofProvider && l.partial.spares(a, now) {
		f.Uncounted, f.RetryAfter = true, max(f.RetryAfter, sparedFor)
		l.tellPartial(f, now)
	}
	if f.Uncounted {
		return failure.OfMoment
	}
	return fault
}

// Published tells that the topic took the retry or dead-letter record of a message: the broker takes those, and the database
// works.
func (l *Line) Published(record, topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unpublished.published(topic)
	none := l.unpublished.settled(record, l.cfg.Clock())
	switch cure := l.reason.Cure(); {
	case cure == failure.ByFate, cure == failure.ByPublication && none:
		l.release()
	case cure == failure.ByPublication:
		l.probeAgain()
	}
}

// Verdict reports whether a message that cannot succeed may die now. If not, it waits, undecided, and is handled again when
// MayTry says so. It is asked once for each attempt, before anything of the verdict is stored or published.
func (l *Line) Verdict(record string, f *failure.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flood.tick(l.cfg.Clock())
	if f.Verdict = failure.Withheld; l.flood.verdict(record, f.Reason) {
		f.Verdict = failure.Dies
	}
	l.tellFlood()
}

// MayTry reports whether a message may be handled: any one, unless its verdict is withheld and nothing has changed since.
func (l *Line) MayTry(record string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flood.tick(l.cfg.Clock())
	may := l.flood.mayTry(record)
	if !may {
		l.probeAgain()
	}
	return may
}

// hold stops the line. The first reason stays while it lasts; a probe that meets another one replaces it.
func (l *Line) hold(f *failure.Error) {
	r := f.Reason
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
	l.cfg.Log.Error("line held", "reason", r, "error", f.Detail)
	if first {
		l.since, l.wait, l.due = l.cfg.Clock(), 0, nil
		l.stopFloodTime()
		l.holds++
		l.scheduleProbe()
	}
}

// release lets the line run again. Its callers know the proof of the cure, see failure.Cure.
func (l *Line) release() {
	now := l.cfg.Clock()
	l.cfg.Log.Info("line runs again", "reason", l.reason, "held", now.Sub(l.since).Round(time.Millisecond).String())
	l.transition(l.reason, false)
	l.reason, l.ended = "", now
	for _, b := range l.breakers {
		b.reset(now)
	}
	l.stopFloodTime()
	select {
	case <-l.probe: // nobody needs it any more
	default:
	}
	l.wake()
}

func (l *Line) transition(r failure.Reason, on bool) {
	if l.cfg.OnTransition != nil {
		l.cfg.OnTransition(r, on)
	}
}

// Held tells why the line is held and since when; an empty reason means that it runs. The operator's pause comes first. A
// flood of dead letters comes last: then only those wait that would die.
func (l *Line) Held() (failure.Reason, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tellFlood()
	if l.reason.Cure() == failure.ByPublication && l.unpublished.nobody(l.cfg.Clock()) {
		l.release() // those that waited went with their partition: nothing is left that could prove the cure
	}
	switch {
	case !l.paused.IsZero():
		return failure.OperatorPause, l.paused
	case l.reason == "" && l.flooded:
		return failure.DeadLetterFlood, l.floodSince
	}
	return l.reason, l.since
}

// Answered is when the latest attempt began that the provider took a decision in; zero if there was none.
func (l *Line) Answered() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.suspects.answered
}

// Inherit starts the line held for a fault that lasted when the process before this one ended, or that holds the others. With
// a breaker of its own each restart in an outage would count against the same few orders anew (torture, seed 60005). It ends
// as any hold does.
func (l *Line) Inherit(r failure.Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cure := r.Cure()
	if l.reason == "" && l.watched(r) && (cure == failure.ByAnswer || cure == failure.ByFate) {
		l.hold(failure.New(r, "it was so before this process started, or is for the others"))
	}
}
