// Package limiter bounds the work at a service that may refuse what is too much.
//
// It promises that a place is never lost, that places are given in the order in which they were asked for, and that the
// limit follows how many are refused, not that some are.
package limiter

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Limiter is an adaptive concurrency limiter. At most so many are inside as configured; while more than a few are refused,
// they begin no faster than they are taken (pace). It is safe for concurrent use.
type Limiter struct {
	clock func() time.Time

	mu      sync.Mutex
	pace    pace
	inside  int
	waiting []*Place
	timer   bool // one is set for the next that may begin
}

// Place is the right to be inside.
type Place struct {
	since time.Time
	round *round // in which it counts; nil for none
	given chan struct{}
}

// New makes one of so many places.
func New(most int, clock func() time.Time) *Limiter {
	return &Limiter{clock: clock, pace: pace{most: most}}
}

// Enter waits for a place. Whoever got one gives it back with Leave.
func (l *Limiter) Enter(ctx context.Context) (*Place, error) {
	mine := &Place{given: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, mine)
	l.admit()
	l.mu.Unlock()
	select {
	case <-mine.given: // whatever the context says: nobody waited
		return mine, nil
	default:
	}
	select {
	case <-mine.given:
		return mine, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, mine); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return nil, ctx.Err()
	}
	l.giveBack(mine, Silent) // it was given at the same moment
	return nil, ctx.Err()
}

// Leave gives the place back and learns from the outcome.
func (l *Limiter) Leave(p *Place, o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(p, o)
}

func (l *Limiter) giveBack(p *Place, o Outcome) {
	now := l.clock()
	l.inside--
	l.pace.end(p.round, o, now.Sub(p.since), now)
	l.admit()
}

// admit lets those in who have waited longest. Called with l.mu held.
func (l *Limiter) admit() {
	now := l.clock()
	l.pace.rest(l.inside, now)
	for len(l.waiting) > 0 && l.inside < l.pace.limit() {
		if wait := l.pace.wait(now); wait > 0 {
			l.later(wait)
			return
		}
		p := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.inside++
		p.since, p.round = now, l.pace.begin(now)
		close(p.given)
	}
}

// later lets the next one in when its time has come.
func (l *Limiter) later(wait time.Duration) {
	if l.timer {
		return
	}
	l.timer = true
	time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.timer = false
		l.admit()
	})
}

// Limit is what bounds those inside.
type Limit struct {
	Inside    int
	PerSecond float64 // that begin; 0 when nothing but Inside bounds them
}

// Limit is the one in force now.
func (l *Limiter) Limit() Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace.rest(l.inside, l.clock())
	if l.pace.rate == 0 {
		return Limit{Inside: l.pace.most}
	}
	return Limit{Inside: l.pace.limit(), PerSecond: l.pace.rate}
}
