package hold

import "time"

// partial notices that the provider fails many, and not all: one of its nodes is sick, or one of ten is left. No breaker
// opens for that, since successes come between; but four failures in a row, which is what an order may have, are then the
// provider's doing and not the order's. While it lasts failures are not counted: the orders wait, as for a rate limit.
type partial struct {
	recent []attempted // the latest attempts, a ring
	next   int         // in it
}

type attempted struct {
	order  string
	failed bool
	at     time.Time
}

const (
	partialOf    = 100 // attempts are looked at,
	partialFor   = time.Minute
	partialLeast = 5               // of different orders failed, and
	partialShare = 0.2             // that is at least this share
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
	failed, all := map[string]bool{}, 0
	for _, a := range p.recent {
		if a.order == order || now.Sub(a.at) > partialFor {
			continue
		}
		all++
		if a.failed {
			failed[a.order] = true
		}
	}
	return len(failed) >= partialLeast && float64(len(failed)) >= partialShare*float64(all)
}
