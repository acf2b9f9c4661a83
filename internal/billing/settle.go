package billing

import (
	"context"
	"math/rand/v2"
	"time"

	"example.com/billing/internal/failure"
)

// settleGrace is how long an outcome is still written after its context was cancelled: at a stop, or when the partition
// went to another instance. What is not written then is found again by the same key.
const settleGrace = 1500 * time.Millisecond

// settle stores the outcome, and keeps it until that worked: the answer of the provider is the one thing that cannot be
// asked for again without a risk. The message's offset does not move meanwhile.
func (s *Service) settle(ctx context.Context, c *Claim, st Settlement) error {
	write, stop := outlive(ctx, settleGrace)
	defer stop()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		held, err := s.store.Settle(write, c, st)
		if err == nil {
			return lostClaim(c, st, held)
		}
		s.cfg.Log.Warn("outcome not written yet, kept and tried again", "order_id", c.Order.ID, "state", st.State, "error", err)
		if f := failure.Of(err); f.Fault(failure.Hold) != failure.OfMessage {
			s.cfg.Unwritten(c.Order, f)
		}
		select {
		case <-write.Done():
			return err
		case <-time.After(wait/2 + rand.N(wait)): // those who wait for one thing must not come back at once
		}
	}
}

// lostClaim reports that another claim has taken the order over. Such a failure publishes nothing: the other claim's
// outcome counts (hazard H17). A success was stored all the same.
func lostClaim(c *Claim, st Settlement, held bool) error {
	if held || st.State == Succeeded {
		return nil
	}
	return failure.New(failure.OrderBusy, "order %s was taken over by another claim", c.Order.ID)
}

// outlive is the context, cancelled one grace later.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return out, func() { stop(); cancel() }
}
