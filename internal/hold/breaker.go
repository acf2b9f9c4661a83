package hold

import (
	"time"

	"example.com/billing/internal/failure"
)

// breaker opens after a run of failures of distinct orders, or after two that span a while, with no success between. It
// needs no minimum volume: at two orders an hour an outage must hold the line too (hazard H20).
//
// "In a row" is said of attempts that follow each other. When 256 are under way and three in ten fail, five end in a row
// by chance every 600 attempts, some times a second, and that is no outage. So a failure weighs fully only if its attempt
// began after the last answer; those that were under way then weigh half. Ten of them end in a row at that rate every
// 170,000 attempts, and an outage that makes all of them hang until they time out is still found by the first ten.
//
// Any answer ends the run, also that of an attempt which began before it. To leave those out, as suspects and releases do,
// was tried in the simulation of breaker_test.go: where failures come faster than successes all successes began before the
// run, and three failures in ten opened the breaker thirty times as often. Little is lost: such answers are over one
// request's time after an outage began.
type breaker struct {
	run      int
	pair     time.Duration
	orders   map[string]bool
	weight   int // of the run, in halves
	first    time.Time
	answered time.Time // when the last answer came
}

// failed counts the failure of an attempt and reports whether the breaker is open.
func (b *breaker) failed(order string, began, now time.Time) bool {
	if b.orders == nil {
		b.orders, b.weight, b.first = map[string]bool{}, 0, now
	}
	if b.weight < 2*b.run && !b.orders[order] {
		b.orders[order] = true
		b.weight++
		if !began.Before(b.answered) {
			b.weight++
		}
	}
	return b.weight >= 2*b.run || now.Sub(b.first) >= b.pair
}

func (b *breaker) reset(now time.Time) { b.orders, b.answered = nil, now }

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
//
// What fails while the line is held belongs to that outage. It neither begins a suspicion nor confirms one: an order that
// probed in one outage and meets the next one is not the culprit of either (torture, seed 21029). Nor does a failure for
// one reason confirm a suspicion for another.
func (s *suspects) judge(order string, r failure.Reason, now time.Time, held bool) failure.Fault {
	if held {
		return failure.OfSystem
	}
	first, known := s.since[order]
	known = known && first.reason == r
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
	if known || others {
		return failure.OfSystem
	}
	return failure.OfMoment
}

// maxSuspects bounds the map; past it an order is judged by the others.
const maxSuspects = 1024
