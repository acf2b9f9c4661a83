package hold

import (
	"time"

	"example.com/billing/internal/failure"
)

// breaker opens after a run of failures of distinct orders, or after two that span a while, with no success between. It
// needs no minimum volume: at two orders an hour an outage must hold the line too (hazard H20).
type breaker struct {
	run    int
	pair   time.Duration
	orders map[string]bool
	first  time.Time
}

// failed counts a failure and reports whether the breaker is open.
func (b *breaker) failed(order string, now time.Time) bool {
	if b.orders == nil {
		b.orders, b.first = map[string]bool{}, now
	}
	if len(b.orders) < b.run {
		b.orders[order] = true
	}
	return len(b.orders) >= b.run || now.Sub(b.first) >= b.pair
}

func (b *breaker) reset() { b.orders = nil }

// suspects are orders whose failure looks systemic: wrong credentials, wrong address, bad certificate. One alone may be
// its own fault, so it waits while another order probes (hazard H10).
type suspects struct {
	since    map[string]suspicion
	answered time.Time // when the latest attempt began that the provider took a decision in
}

type suspicion struct {
	reason failure.Reason
	at     time.Time
}

// suspectTTL forgets orders that never came back, so that the map stays small.
const suspectTTL = 10 * time.Minute

// judge says what the failure is: of a moment at first, the message's own once another order was answered since, and
// everyone's when another order fails alike, or when this one fails again and there was no other.
func (s *suspects) judge(order string, r failure.Reason, now time.Time, held bool) failure.Fault {
	first, known := s.since[order]
	if known && s.answered.After(first.at) {
		delete(s.since, order)
		return failure.OfMessage
	}
	others := false
	for o, sus := range s.since {
		if now.Sub(sus.at) > suspectTTL {
			delete(s.since, o)
		} else if o != order && sus.reason == r && !s.answered.After(sus.at) {
			others = true
		}
	}
	if !known && len(s.since) < maxSuspects {
		s.since[order] = suspicion{r, now}
	}
	if held || known || others {
		return failure.OfSystem
	}
	return failure.OfMoment
}

// maxSuspects bounds the map; past it an order is judged by the others.
const maxSuspects = 1024
