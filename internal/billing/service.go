package billing

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/limiter"
)

// ErrContradiction marks an answer that is well formed and says something else than what was asked for: another amount,
// another order. Nobody can decide that but a person.
var ErrContradiction = errors.New("the provider's answer contradicts the request")

// ServiceConfig are the limits of a service.
type ServiceConfig struct {
	InFlight      int           // charges at the provider at a time, at most
	Window        time.Duration // how long the same key is safe to send again: key lifetime less the margin
	MaxProcessing time.Duration // how late after a request a charge may still appear
	// Verdict says in the failure whether a final refusal may be settled now. One that is withheld leaves the order open: an
	// outage that refuses everyone must not be announced as the end of their orders (hazard H26).
	Verdict func(record string, f *failure.Error)
	// Unwritten is told of each try to store an outcome that failed: while none can be stored, no more money may move.
	Unwritten func(o Order, f *failure.Error)
	Clock     func() time.Time
	Log       *slog.Logger
}

// Service charges orders. It is safe for concurrent use.
type Service struct {
	store    Store
	provider Provider
	cfg      ServiceConfig
	limiter  *limiter.Limiter
}

// NewService checks the limits.
func NewService(store Store, provider Provider, cfg ServiceConfig) (*Service, error) {
	if cfg.Window <= 0 || cfg.MaxProcessing <= 0 {
		return nil, errors.New("billing: the key lifetime must be longer than its margin, and the provider's longest processing time more than 0")
	}
	if cfg.InFlight < 1 {
		return nil, errors.New("billing: at least one charge must be allowed at a time")
	}
	if cfg.Verdict == nil || cfg.Unwritten == nil {
		return nil, errors.New("billing: somebody must give the verdict on a refusal, and hear of outcomes that are not written")
	}
	return &Service{store: store, provider: provider, cfg: cfg, limiter: limiter.New(cfg.InFlight, cfg.Clock)}, nil
}

// Receipt tells how an order was charged.
type Receipt struct {
	ProviderChargeID string
	Duplicate        bool // it was charged before
	SameRecord       bool // before, for this very record: a redelivery
}

// Charge claims the order, calls the provider and settles. Errors are *failure.Error or come from the store as such.
//
// The claim is committed before the call and the outcome in another transaction after it; no connection is held while the
// provider works. Whatever happens in between, the next claim of the order finds that something may have been sent.
func (s *Service) Charge(ctx context.Context, o Order) (Receipt, error) {
	claim, standing, settlement, failed := s.claimAndAttempt(ctx, o)
	switch {
	case standing != nil:
		return answerFor(o, standing)
	case claim == nil:
		return Receipt{}, failed
	}
	if err := s.settle(ctx, claim, settlement); err != nil {
		return Receipt{}, err
	}
	return Receipt{ProviderChargeID: settlement.ProviderChargeID}, failed
}

// claimAndAttempt works within the limiter. The wait comes before the claim, whose lease must not run meanwhile; the
// settlement comes after, so that a slow database does not leave the provider idle.
func (s *Service) claimAndAttempt(ctx context.Context, o Order) (c *Claim, st *Standing, end Settlement, err error) {
	place, err := s.limiter.Enter(ctx)
	if err != nil {
		return nil, nil, Settlement{}, err
	}
	defer func() { s.limiter.Leave(place, outcomeOf(end)) }()
	c, st, err = s.claim(ctx, o)
	if err == nil && c != nil {
		end, err = s.attempt(ctx, c)
	}
	return c, st, end, err
}

// outcomeOf tells the limiter what the provider's answer says about its rate limit.
func outcomeOf(end Settlement) limiter.Outcome {
	switch status := end.Attempt.HTTPStatus; {
	case status == http.StatusTooManyRequests:
		return limiter.Refused
	case status >= 200 && status < 500:
		return limiter.Taken
	default:
		return limiter.Silent
	}
}

// Limit is what bounds the charges at the provider now. A provider that refuses many as too many lowers it, which is no
// failure (hazards H16, H35).
func (s *Service) Limit() limiter.Limit { return s.limiter.Limit() }

// claim asks again in the currency of the row when the event named none: a changed default must not turn a waiting order
// into a conflict (hazard H6).
func (s *Service) claim(ctx context.Context, o Order) (*Claim, *Standing, error) {
	claim, standing, err := s.store.Claim(ctx, o)
	if standing == nil || standing.SameContent || !o.CurrencyIsDefault || standing.Currency == o.Amount.Currency {
		return claim, standing, err
	}
	asFirstClaimed, err := o.In(standing.Currency)
	if err != nil {
		return nil, standing, nil //nolint:nilerr // the amount does not fit the row's currency: other content, as the standing says
	}
	return s.store.Claim(ctx, asFirstClaimed)
}

// answerFor maps what stands in the way of a claim. Only a success of the same content is a duplicate: a refusal must
// still reach the dead letters, since a crash may have come between its settlement and its publication (hazard H4).
func answerFor(o Order, st *Standing) (Receipt, error) {
	switch {
	case !st.SameContent:
		return Receipt{}, failure.New(failure.OrderConflict, "order %s was taken before with other content; its row is %s", o.ID, st.State)
	case st.State == Succeeded:
		return Receipt{ProviderChargeID: st.ProviderChargeID, Duplicate: true, SameRecord: st.Origin == o.Origin}, nil
	case st.State == Declined, st.State == Rejected, st.State == Review:
		f := failure.New(st.Reason, "order %s is %s", o.ID, st.State)
		f.Final, f.Unknown = true, st.State == Review
		f.Verdict = failure.Dies // it was given before the order was settled so; a flood must not withhold it again
		return Receipt{}, f
	default: // in flight elsewhere, or it changed while we looked
		return Receipt{}, failure.New(failure.OrderBusy, "order %s is being worked on", o.ID)
	}
}

// attempt works under the claim and says both what to store and how the order failed; nil for a success. A panic may have
// come after the send, so it leaves the outcome unknown (hazard H5).
func (s *Service) attempt(ctx context.Context, c *Claim) (st Settlement, failed error) {
	started := s.cfg.Clock()
	defer func() {
		if p := recover(); p != nil {
			f := failure.New(failure.Panic, "panic while charging: %v", failure.Recovered(p))
			st, failed = Settlement{State: Unknown, Unknown: true, Sent: true, Reason: f.Reason}, f
			st.Attempt.Kind = "charge"
		}
		st.Attempt.StartedAt, st.Attempt.FinishedAt = started, s.cfg.Clock()
		st.Attempt.Reason = st.Reason
		if failed != nil {
			st.Attempt.Detail = failed.Error()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, c.LeaseEnd.Sub(started)) // what comes later is another claim's to ask for
	defer cancel()
	if !started.Before(c.SendBy) { // the provider has nothing to do with that
		f := failure.New(failure.DatabaseBusy, "the claim came %s too late to send anything", started.Sub(c.SendBy))
		f.Uncounted = true
		return unsent(c, f)
	}
	if s.mustLookUp(c) {
		return s.lookUp(ctx, c)
	}
	return s.send(ctx, c)
}

// mustLookUp reports whether sending the same key might be a second charge: the provider may have forgotten the key, or
// we may have forgotten a send (hazards H2, H3). Age is by the later of both clocks; a negative one proves nothing.
func (s *Service) mustLookUp(c *Claim) bool {
	if c.FirstSentAt.IsZero() {
		return c.Order.MayBeKnown
	}
	age := later(c.Now, s.cfg.Clock()).Sub(c.FirstSentAt)
	return age < 0 || age > s.cfg.Window
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lookUp adopts the charge that the provider lists, and sends only when its absence is proven.
func (s *Service) lookUp(ctx context.Context, c *Claim) (Settlement, error) {
	found, consistent, err := s.provider.Find(ctx, c.Order.ID)
	if err != nil {
		return lookedUp(c, inconclusive(err))
	}
	if len(found) > 0 {
		return s.adopt(c, found)
	}
	if !consistent || s.mayBeWorkedOn(c) {
		return lookedUp(c, failure.New(failure.LookupInconclusive, "the provider does not list order %s, which proves nothing yet", c.Order.ID))
	}
	c.Unknown = false
	return s.send(ctx, c)
}

// mayBeWorkedOn reports whether an earlier request may still become a charge.
func (s *Service) mayBeWorkedOn(c *Claim) bool {
	return !c.LastSentAt.IsZero() && c.Now.Sub(c.LastSentAt) <= s.cfg.MaxProcessing
}

// inconclusive is a look-up that failed. It is no failure of the order, whatever the provider answered: nothing was sent.
func inconclusive(err error) *failure.Error {
	f := failure.Of(err)
	if f.Fault(failure.Hold) == failure.OfMessage {
		after := f.RetryAfter
		f = failure.New(failure.LookupInconclusive, "look-up: %w", err)
		f.RetryAfter = after
	}
	f.Uncounted = true
	return f
}

// lookedUp settles a look-up that proved nothing.
func lookedUp(c *Claim, f *failure.Error) (Settlement, error) {
	st, err := unsent(c, f)
	st.Attempt.Kind = "lookup"
	return st, err
}

// unsent settles a claim under which nothing was sent: what was known before still is.
func unsent(c *Claim, f *failure.Error) (Settlement, error) {
	f.Unknown = c.Unknown
	return Settlement{State: openState(c.Unknown), Unknown: c.Unknown, Reason: f.Reason, Attempt: Attempt{Kind: "charge"}}, f
}

func (s *Service) adopt(c *Claim, found []ProviderCharge) (Settlement, error) {
	if len(found) > 1 || found[0].Amount != c.Order.Amount || found[0].Reference != c.Order.ID {
		f := failure.New(failure.ProviderBadAnswer, "the provider lists %d charges for order %s, the first of %s", len(found), c.Order.ID, found[0].Amount)
		st, err := s.contradiction(c, f)
		st.Attempt.Kind = "lookup"
		return st, err
	}
	st := s.success(c, found[0].ID)
	st.Attempt.Kind = "lookup"
	st.Sent = !c.FirstSentAt.IsZero()
	return st, nil
}

func (s *Service) send(ctx context.Context, c *Claim) (Settlement, error) {
	charge, call, err := s.provider.Charge(ctx, ChargeRequest{
		Key: c.Key, Reference: c.Order.ID, CustomerID: c.Order.CustomerID, Amount: c.Order.Amount,
		SendBy: c.SendBy, Traceparent: c.Order.Traceparent,
	})
	var st Settlement
	if err == nil {
		st = s.success(c, charge.ID)
	} else {
		st, err = s.failed(c, err)
	}
	st.Sent = call.Sent
	st.Attempt = Attempt{Kind: "charge", HTTPStatus: call.Status, ProviderRequestID: call.RequestID, ProviderCode: call.Code, Replayed: call.Replayed}
	return st, err
}

// failed maps a failure to the row's state. An unknown outcome is sticky: a later refusal proves nothing about the earlier
// request; only a decline of the same key does, since keys are not sent past their lifetime without a look-up (hazard H5).
//
// "In progress" is no decision, and no failure of the order while an earlier request may still be worked on (hazard H22).
func (s *Service) failed(c *Claim, err error) (Settlement, error) {
	f := failure.Of(err)
	switch f.Reason {
	case failure.Declined, failure.ProviderBadRequest, failure.ProviderRejected, failure.KeyReused:
		f.Answered = true
	case failure.ProviderInProgress:
		f.Uncounted = c.FirstSentAt.IsZero() || c.Now.Sub(c.FirstSentAt) <= s.cfg.MaxProcessing // each 409 renews LastSentAt
	}
	refused := f.Reason == failure.ProviderBadRequest || f.Reason == failure.ProviderRejected
	switch {
	case f.Reason == failure.Declined:
		return s.refusal(c, Declined, f)
	case errors.Is(err, ErrContradiction), f.Reason == failure.KeyReused:
		return s.contradiction(c, f)
	case refused && c.Unknown:
		f = unproven(f)
	case refused:
		return s.refusal(c, Rejected, f)
	}
	f.Unknown = c.Unknown || f.Unknown
	return open(f), f
}

// unproven is a refusal of an order whose earlier request may have been charged. It proves nothing about that one, and an
// order must not end with what an outage that refuses everyone says of it (torture, seed 50033). The provider works, though:
// when nothing else comes, the line must not be held for it (torture, seed 70037).
func unproven(f *failure.Error) *failure.Error {
	u := failure.New(failure.RefusedAfterUnknown, "%s; an earlier request of the order may have been charged, which this does not tell", f.Detail)
	u.Refused, u.Answered = f.Refused, f.Answered
	return u
}

// open leaves the order to be tried again.
func open(f *failure.Error) Settlement {
	return Settlement{State: openState(f.Unknown), Unknown: f.Unknown, Reason: f.Reason}
}

func openState(unknown bool) State {
	if unknown {
		return Unknown
	}
	return RetryWait
}

// refusal ends the order, unless so many are refused that it is an outage.
func (s *Service) refusal(c *Claim, state State, f *failure.Error) (Settlement, error) {
	if s.cfg.Verdict(c.Order.Record, f); f.Verdict == failure.Withheld {
		f.Unknown = c.Unknown
		return open(f), f
	}
	e := newEvent(*c, EventFailed, s.cfg.Clock())
	e.Kind, e.Reason = string(state), string(f.Reason)
	return Settlement{State: state, Reason: f.Reason, Event: e}, f
}

// contradiction leaves the order to a person, unless so many contradict themselves that it is an outage.
func (s *Service) contradiction(c *Claim, f *failure.Error) (Settlement, error) {
	f.Final, f.Unknown = true, true
	if s.cfg.Verdict(c.Order.Record, f); f.Verdict == failure.Withheld {
		return open(f), f
	}
	return Settlement{State: Review, Unknown: true, Sent: true, Reason: f.Reason}, f
}

func (s *Service) success(c *Claim, chargeID string) Settlement {
	e := newEvent(*c, EventSucceeded, s.cfg.Clock())
	e.ProviderChargeID = chargeID
	return Settlement{State: Succeeded, ProviderChargeID: chargeID, Event: e}
}
