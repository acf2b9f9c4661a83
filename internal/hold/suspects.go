package hold

import (
	"time"

	"example.com/billing/internal/failure"
)

// suspects are orders whose failure looks systemic: wrong credentials, wrong address, a bad certificate, an error that
// nobody knows. It may be such an order's own, so it waits while others are tried (hazard H10). Whether the line is held is
// the breakers' matter; here it is decided when a failure counts against its order.
type suspects struct {
	since    map[string]suspicion
	answered time.Time // when the latest attempt began that the provider took a decision in
}

type suspicion struct {
	reason   failure.Reason
	at       time.Time
	outlived int // how often others were answered while this order failed again
}

const (
	suspectTTL  = 10 * time.Minute // orders that never came back are forgotten, so that the map stays small
	maxSuspects = 1024
	// outlivedToCount is how often others must have fared better before one failure counts. One of three provider nodes that
	// is sick refuses every third request: without it one good order in 81 would meet that node four times (hazard H34).
	outlivedToCount = 3
)

// judge says whether the failure counts against its order, or whether it is too early to tell.
//
// A failure for one reason says nothing about an earlier one for another reason.
func (s *suspects) judge(order string, r failure.Reason, now time.Time) failure.Fault {
	before, known := s.since[order]
	switch {
	case !known || before.reason != r:
		s.forgetOld(now)
		if len(s.since) < maxSuspects || known {
			s.since[order] = suspicion{reason: r, at: now}
		}
		return failure.OfSuspect
	case !s.answered.After(before.at): // nobody has fared better since
		return failure.OfSuspect
	}
	before.outlived++
	before.at = now
	if before.outlived < outlivedToCount {
		s.since[order] = before
		return failure.OfSuspect
	}
	delete(s.since, order)
	return failure.OfDependency
}

func (s *suspects) forgetOld(now time.Time) {
	for order, suspicion := range s.since {
		if now.Sub(suspicion.at) > suspectTTL {
			delete(s.since, order)
		}
	}
}
