package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/pgstore"
)

// pageOfUnknown is how many listed orders are read at a time.
const pageOfUnknown = 200

// workThrough looks up every order that is listed, then resolves the dead letters of those that turned out to be charged.
func (r *Reconciler) workThrough(ctx context.Context, report *Report) error {
	out := report.Unknown
	for after := (uuid.UUID{}); ; {
		orders, err := r.store.ListUnknown(ctx, after, pageOfUnknown)
		if err != nil {
			return err
		}
		if len(orders) == 0 {
			break
		}
		after = orders[len(orders)-1]
		rows, err := r.store.Rows(ctx, orders)
		if err != nil {
			return err
		}
		verdicts, err := each(ctx, r.cfg.Lookups, orders, func(ctx context.Context, id uuid.UUID) (verdict, error) { return r.decide(ctx, rows[id]) })
		for _, v := range verdicts { // also beside an error: what was decided is decided
			out.count(v)
		}
		if err != nil {
			return err
		}
		r.cfg.Progress(*report)
	}
	if _, err := r.store.ForgetKnown(ctx); err != nil {
		return err
	}
	var err error
	out.Letters, err = r.resolveLetters(ctx)
	return err
}

// ending is what became of an unknown outcome.
type ending int

const (
	undone     ending = iota // not looked at: the run broke off
	charged                  // found and recorded
	notCharged               // proven absent
	left                     // nothing is proven
	busy                     // somebody works on it, or it is known by now
	inReview                 // it contradicts itself
)

type verdict struct {
	ending     ending
	difference Difference // in review
}

func (u *UnknownReport) count(v verdict) {
	switch v.ending {
	case undone:
		return
	case charged:
		u.Charged++
	case notCharged:
		u.NotCharged++
	case left:
		u.Left++
	case busy:
		u.Busy++
	case inReview:
		u.Findings.add(v.difference)
	}
	u.Looked++
}

// decide looks one order up and stores what that proves. The row was read before, so that a claim which came in between
// is noticed when the finding is stored.
func (r *Reconciler) decide(ctx context.Context, row pgstore.Row) (verdict, error) {
	switch {
	case row.State == billing.Review:
		return review(row, "", "a person must decide: "+string(row.Reason)), nil
	case !row.Undecided():
		return verdict{ending: busy}, nil
	}
	started := r.cfg.Clock()
	found, consistent, err := r.find(ctx, row.OrderID)
	if err != nil && !unreadable(err) {
		return verdict{}, err
	}
	finding, proven := pgstore.Finding{}, false
	if err == nil {
		finding, proven = judge(row, found, consistent, r.cfg.Settled)
	}
	if !proven {
		r.cfg.Log.Info("outcome still unknown", "order_id", row.OrderID, "quiet_seconds", int(row.Quiet/time.Second), "consistent", consistent, "error", err)
		return verdict{ending: left}, nil
	}
	finding.Started = started
	done, err := r.store.Resolve(ctx, row, finding)
	if err != nil {
		return verdict{}, err
	}
	if !done {
		return verdict{ending: busy}, nil
	}
	r.cfg.Log.Info("unknown outcome resolved", "order_id", row.OrderID, "state", finding.State, "provider_charge_id", finding.ChargeID)
	switch finding.State {
	case billing.Succeeded:
		return verdict{ending: charged}, nil
	case billing.RetryWait:
		return verdict{ending: notCharged}, nil
	}
	return review(row, finding.ChargeID, finding.Detail), nil
}

func review(row pgstore.Row, chargeID, there string) verdict {
	return verdict{inReview, Difference{Kind: InReview, OrderID: row.OrderID, ChargeID: chargeID, There: there, Here: "review " + row.Amount.String()}}
}

// judge says what a look-up proves, if anything. An empty list proves that no money moved only if the look-up sees every
// charge, and if the last request that may have been sent is so old that nothing can come of it any more (hazard H2).
func judge(row pgstore.Row, found []billing.ProviderCharge, consistent bool, settled time.Duration) (f pgstore.Finding, proven bool) {
	switch {
	case len(found) == 0:
		return pgstore.Finding{State: billing.RetryWait, Detail: "not charged: the provider does not list the order"}, consistent && row.Quiet > settled
	case len(found) > 1:
		return pgstore.Finding{
			State: billing.Review, ChargeID: found[1].ID, Anomaly: pgstore.AnomalySecondCharge,
			Detail: fmt.Sprintf("%d charges, the first is %s", len(found), found[0].ID),
		}, true
	case found[0].Reference != row.OrderID || found[0].Amount != row.Amount:
		return pgstore.Finding{
			State: billing.Review, ChargeID: found[0].ID, Anomaly: pgstore.AnomalyContradiction,
			Detail: fmt.Sprintf("the charge is %s of order %s", found[0].Amount, found[0].Reference),
		}, true
	}
	return pgstore.Finding{State: billing.Succeeded, ChargeID: found[0].ID, Detail: "found by its reference"}, true
}
