package hold

import (
	"time"

	"example.com/billing/internal/failure"
)

// partial notices that the provider fails many, and not all: one of its nodes is sick, or one of ten is left. No breaker
// opens for that, since successes come between; but four failures in a row, which is what an order may have, are then the
// provider's doing and not the order's. While it lasts failures are not counted: the orders wait, as for a rate limit.
type partial struct {
	recent []attempted // the latest attempts, a ring
	next   int         // in it
	told   time.Time   // when it was last logged
}

type attempted struct {
	order  string
	failed bool
	at     time.Time
}

const (
	partialOf    = 100 // attempts are looked at,
	partialFor   = time.Minute
	partialLeast = 3               // other orders failed, and
	partialShare = 0.1             // that is at least this share: where fewer fail, one in 10,000 fails four times
	partialWait  = 5 * time.Second // between two attempts of an order meanwhile: the provider has enough to do
)

// note remembers an attempt that the provider answered with a decision, or failed.
func (p *partial) note(order string, failed bool, now time.Time) {
	a := attempted{order, failed, now}
	if len(p.recent) < partialOf {
		p.recent = append(p.recent, a)
		return
	}
	p.recent[p.next] = a
	p.next = (p.next + 1) % partialOf
}

// failing reports whether many other orders failed lately. What the order itself met says nothing about the provider.
func (p *partial) failing(order string, now time.Time) bool {
	failed, good := map[string]bool{}, 0
	for _, a := range p.recent {
		switch {
		case a.order == order || now.Sub(a.at) > partialFor:
		case a.failed:
			failed[a.order] = true
		default:
			good++
		}
	}
	return len(failed) >= partialLeast && float64(len(failed)) >= partialShare*float64(len(failed)+good)
}

// tellPartial logs once a minute why orders wait though the line runs and no failure is counted.
func (l *Line) tellPartial(f *failure.Error, now time.Time) {
	if now.Sub(l.partial.told) < partialFor {
		return
	}
	l.partial.told = now
	l.cfg.Log.Warn("the provider fails many orders, but not all: their failures are not counted", "reason", f.Reason, "error", f.Detail)
}
