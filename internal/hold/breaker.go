package hold

import "time"

// breaker watches one kind of outage. It opens after a run of failures of distinct orders, or after two failures that span
// a while, with no success between. It needs no minimum volume: at two orders an hour an outage must hold the line too
// (hazard H20).
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
	run      int // 0: a run alone opens nothing
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
	if len(b.orders) < maxRun && !b.orders[order] {
		b.orders[order] = true
		b.weight++
		if !began.Before(b.answered) {
			b.weight++
		}
	}
	return b.run > 0 && b.weight >= 2*b.run || now.Sub(b.first) >= b.pair
}

// maxRun bounds the orders that a breaker remembers.
const maxRun = 1024

func (b *breaker) reset(now time.Time) { b.orders, b.answered = nil, now }
