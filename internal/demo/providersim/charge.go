package providersim

import (
	"net/http"
	"time"
)

// declineCode is why an order is declined, for good.
const declineCode = "card_declined"

// charge serves POST /v1/charges.
func (s *Server) charge(w http.ResponseWriter, r *http.Request) {
	now := s.inflight.Add(1)
	for most := s.peak.Load(); now > most && !s.peak.CompareAndSwap(most, now); most = s.peak.Load() {
	}
	defer s.inflight.Add(-1)
	key, want, no := read(r)
	if no != nil {
		s.problem(w, no.status, no.code)
		return
	}
	n := s.book.ask(want.reference, s.cfg.Clock())
	fate := s.fate(r, want.reference, n)
	if fate.before() {
		s.misbehave(w, r, fate)
		return
	}
	verdict, entry := s.book.begin(key, want, s.cfg.Clock())
	switch verdict {
	case inUse:
		s.problem(w, http.StatusConflict, "idempotency_key_in_use")
	case reused:
		s.problem(w, http.StatusUnprocessableEntity, "idempotency_key_reused")
	case wasDeclined:
		s.problem(w, http.StatusPaymentRequired, declineCode)
	case wasCharged:
		s.replays.Add(1)
		s.answer(w, r, http.StatusOK, entry.charge, fate)
	case fresh:
		s.work(w, r, entry, fate, n)
	}
}

// fate is how the n-th request of an order is treated: as the mode has it, else as the rules have it.
func (s *Server) fate(r *http.Request, reference string, n int) Kind {
	mode := s.outage()
	if k := mode.forConnection(r.RemoteAddr); k != OK && k != Unsure {
		return k
	}
	if k := mode.forCharge(dice(s.cfg.Seed+1, reference, n), s.cfg.Clock()); k != OK {
		return k
	}
	return s.plan.fate(reference, n)
}

// work does what was asked for. It goes on when the client has gone: that is why a client cannot know.
func (s *Server) work(w http.ResponseWriter, r *http.Request, e *entry, fate Kind, n int) {
	wait := s.cfg.Latency + time.Duration(float64(s.cfg.Jitter)*dice(^s.cfg.Seed, e.content.reference, n))
	if fate == Slow {
		wait += s.cfg.SlowFor
	}
	s.wait(wait)
	if fate == Decline {
		s.book.decline(e)
		s.problem(w, http.StatusPaymentRequired, declineCode)
		return
	}
	s.answer(w, r, http.StatusCreated, s.book.charge(e, s.cfg.Clock()), fate)
}

func (s *Server) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closed:
	}
}
