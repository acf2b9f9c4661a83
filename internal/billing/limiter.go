package billing

import (
	"context"
	"slices"
	"sync"
	"time"

	"example.com/billing/internal/failure"
)

// limiter is the adaptive concurrency limiter: it bounds the charges at the provider, first come, first served. At most so
// many are under way as configured; while the provider refuses more than a few of them, they begin no faster than it takes
// them (pace). A rate limit of the provider is thus no failure (hazards H16, H35).
type limiter struct {
	clock func() time.Time

	mu      sync.Mutex
	pace    pace
	inside  int
	waiting []*place
	timer   bool // one is set for the next that may begin
}

// place is the right to one charge at the provider.
type place struct {
	since time.Time
	round *round // in which it counts; nil for none
	given chan struct{}
}

func newLimiter(most int, clock func() time.Time) *limiter {
	return &limiter{clock: clock, pace: pace{most: most}}
}

// enter waits for a place. Whoever got one gives it back with leave.
func (l *limiter) enter(ctx context.Context) (*place, error) {
	mine := &place{given: make(chan struct{})}
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
	l.giveBack(mine, silent) // it was given at the same moment
	return nil, ctx.Err()
}

// leave gives the place back and learns from the outcome.
func (l *limiter) leave(p *place, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(p, o)
}

func (l *limiter) giveBack(p *place, o outcome) {
	now := l.clock()
	l.inside--
	l.pace.end(p.round, o, now.Sub(p.since), now)
	l.admit()
}

// admit lets those in who have waited longest. Called with l.mu held.
func (l *limiter) admit() {
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
func (l *limiter) later(wait time.Duration) {
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

// Limit is what bounds the charges at the provider.
type Limit struct {
	InFlight  int            // at a time
	PerSecond float64        // as fast as they begin; 0 when nothing but InFlight bounds them
	Reason    failure.Reason // why it is lower than configured; empty when it is not
}

// Limit is the one in force now.
func (l *limiter) Limit() Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace.rest(l.inside, l.clock())
	if l.pace.rate == 0 {
		return Limit{InFlight: l.pace.most}
	}
	return Limit{InFlight: l.pace.limit(), PerSecond: l.pace.rate, Reason: failure.ProviderRateLimited}
}
