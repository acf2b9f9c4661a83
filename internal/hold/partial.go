package hold

import (
	"math"
	"time"

	"example.com/billing/internal/failure"
)

// partial notices that the provider fails many orders, and not all: one of its nodes is sick, or one of ten is left. No
// breaker opens for that, since successes come between; but then four failures, which is what an order may have, are the
// provider's doing and not the order's.
//
// How often the provider fails is told by the first attempts of the latest orders: those that fail again and again would
// count many times. Where a share p of them fails, an order fails n times with p^n. Its last failure is counted when that
// is bad luck of less than one in ten thousand: the fourth where one in ten fails, the sixth where one in five does, the
// ninth where one in three does. Until then it waits, uncounted, in the last tier. So attempts stay bounded.
type partial struct {
	firsts []first // a ring
	next   int     // in it
	told   time.Time
}

// first is the first attempt of an order.
type first struct {
	order  string
	failed bool
	at     time.Time
}

const (
	partialOf    = 100 // first attempts are looked at
	partialFor   = 30 * time.Minute
	partialLeast = 5 // of them failed; fewer may each have a fault of their own
	badLuck      = 1e-5
	sparedFor    = 5 * time.Second // at least; the last tier, as a rule
)

// note remembers an attempt that the provider answered with a decision, or failed.
func (p *partial) note(a Attempt, failed bool, now time.Time) {
	if !a.First {
		return
	}
	f := first{a.Order, failed, now}
	if len(p.firsts) < partialOf {
		p.firsts = append(p.firsts, f)
		return
	}
	p.firsts[p.next] = f
	p.next = (p.next + 1) % partialOf
}

// spares reports whether the failure, which would be the order's last, may be bad luck. What the order itself met first says
// nothing about the provider.
func (p *partial) spares(a Attempt, now time.Time) bool {
	if !a.Last {
		return false
	}
	bad, all := 0, 0
	for _, f := range p.firsts {
		if f.order == a.Order || now.Sub(f.at) > partialFor {
			continue
		}
		all++
		if f.failed {
			bad++
		}
	}
	return bad >= partialLeast && math.Pow(float64(bad)/float64(all), float64(a.Earlier+1)) > badLuck
}

// tellPartial logs once in a while why orders wait though the line runs and no failure is counted.
func (l *Line) tellPartial(f *failure.Error, now time.Time) {
	if now.Sub(l.partial.told) < time.Minute {
		return
	}
	l.partial.told = now
	l.cfg.Log.Warn("the provider fails many orders, but not all: no order dies of it", "reason", f.Reason, "error", f.Detail)
}
