package hold

import (
	"math"
	"time"

	"example.com/billing/internal/failure"
)

// partial notices that the provider fails many, and not all: one of its nodes is sick, or one of ten is left. No breaker
// opens for that, since successes come between; but four failures in a row, which is what an order may have, are then the
// provider's doing and not the order's. While it lasts failures are not counted: the orders wait, as for a rate limit.
//
// An order that always fails must not hide among them for ever. Where a share p of the attempts fails, one order fails n
// times in a row by chance with p^n. When that is next to impossible, and only a few orders are such, their failures count.
// Many such orders are an outage that always meets the same ones, of one shard for example.
type partial struct {
	recent  []attempted // the latest attempts, a ring
	next    int         // in it
	streaks map[string]streak
	told    time.Time // when it was last logged
}

type attempted struct {
	order  string
	failed bool
	at     time.Time
}

// streak is how often an order has failed without being counted.
type streak struct {
	failures int
	last     time.Time
}

const (
	partialOf    = 100 // attempts are looked at,
	partialFor   = time.Minute
	partialLeast = 3               // other orders failed, and
	partialShare = 0.1             // that is at least this share: where fewer fail, one in 10,000 fails four times
	partialWait  = 5 * time.Second // between two attempts of an order meanwhile: the provider has enough to do

	noChance   = 1e-6 // that so many failures of one order are chance
	streakTTL  = 10 * time.Minute
	maxStreaks = 1024
)

// note remembers an attempt that the provider answered with a decision, or failed.
func (p *partial) note(order string, failed bool, now time.Time) {
	if !failed {
		delete(p.streaks, order)
	}
	a := attempted{order, failed, now}
	if len(p.recent) < partialOf {
		p.recent = append(p.recent, a)
		return
	}
	p.recent[p.next] = a
	p.next = (p.next + 1) % partialOf
}

// failing reports whether many other orders failed lately, so that a failure of this one is not counted. What the order
// itself met says nothing about the provider.
func (p *partial) failing(order string, now time.Time) bool {
	failed, bad, good := map[string]bool{}, 0, 0
	for _, a := range p.recent {
		switch {
		case a.order == order || now.Sub(a.at) > partialFor:
		case a.failed:
			failed[a.order] = true
			bad++
		default:
			good++
		}
	}
	if len(failed) < partialLeast || float64(len(failed)) < partialShare*float64(len(failed)+good) {
		return false
	}
	return !p.alwaysFails(order, float64(bad)/float64(bad+good), now)
}

// alwaysFails notes one more failure of the order, where a share of all attempts fails, and reports whether it is one of a few
// whose failures are no chance.
func (p *partial) alwaysFails(order string, share float64, now time.Time) bool {
	if p.streaks == nil {
		p.streaks = map[string]streak{}
	}
	noChanceFrom := math.Log(noChance) / math.Log(min(share, 0.999))
	others := 0
	for o, s := range p.streaks {
		switch {
		case now.Sub(s.last) > streakTTL:
			delete(p.streaks, o)
		case o != order && float64(s.failures) >= noChanceFrom/2: // on its way there
			others++
		}
	}
	s, known := p.streaks[order]
	if known || len(p.streaks) < maxStreaks {
		s.failures, s.last = s.failures+1, now
		p.streaks[order] = s
	}
	return float64(s.failures) >= noChanceFrom && others < partialLeast
}

// tellPartial logs once a minute why orders wait though the line runs and no failure is counted.
func (l *Line) tellPartial(f *failure.Error, now time.Time) {
	if now.Sub(l.partial.told) < partialFor {
		return
	}
	l.partial.told = now
	l.cfg.Log.Warn("the provider fails many orders, but not all: their failures are not counted", "reason", f.Reason, "error", f.Detail)
}
