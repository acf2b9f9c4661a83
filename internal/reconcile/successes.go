package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/pgstore"
)

const (
	slice      = time.Minute // of our charges, read at a time
	remembered = 100_000     // orders that the provider listed last
)

// successes looks for our charges, up to an instant, among those that the provider has listed. One that is not there may
// still exist: it was made before the range, or its clock differs from ours. So it is asked for by its order.
func (c *comparison) successes(ctx context.Context, until time.Time) error {
	for c.Until.Before(until) {
		end := c.Until.Add(slice)
		if end.After(until) {
			end = until
		}
		found, err := c.store.Successes(ctx, c.Until, end)
		if err != nil {
			return err
		}
		outcomes, err := each(ctx, c.cfg.Lookups, c.worthAsking(found), c.inFull)
		for _, o := range outcomes {
			c.count(o)
		}
		if err != nil {
			return err
		}
		c.Here += len(found)
		c.Until = end
	}
	return nil
}

// worthAsking are those that were not listed, and a sample of those with more than one claim: where an order was taken over
// while somebody may still have been sending, it must have exactly one charge, whenever that was made (hazard H1).
func (c *comparison) worthAsking(found []pgstore.Success) (ask []pgstore.Success) {
	for _, s := range found {
		sampled := false
		if s.Claims > 1 {
			c.TakenOver++
			if sampled = c.Sampled < c.cfg.Sample; sampled {
				c.Sampled++
			}
		}
		if sampled || !c.seen.has(s.OrderID) {
			ask = append(ask, s)
		}
	}
	return ask
}

// inFull asks for all charges of a charged order. There must be one, and it must be ours.
func (c *comparison) inFull(ctx context.Context, s pgstore.Success) (outcome, error) {
	o := outcome{lookedUp: 1}
	found, consistent, err := c.find(ctx, s.OrderID)
	differs := func(k Kind, chargeID, there string) {
		o.differences = append(o.differences, Difference{Kind: k, OrderID: s.OrderID, ChargeID: chargeID, There: there, Here: fmt.Sprintf("succeeded %s %s", s.Amount, s.ChargeID)})
	}
	ours := slices.IndexFunc(found, func(p billing.ProviderCharge) bool { return p.ID == s.ChargeID })
	switch {
	case err != nil && unreadable(err):
		o.unproven = 1
		return o, nil
	case err != nil:
		return o, err
	case len(found) == 0 && !consistent:
		o.unproven = 1
	case len(found) == 0:
		differs(MissingThere, s.ChargeID, "")
	case ours < 0 && len(found) == 1:
		differs(OtherCharge, found[0].ID, found[0].Amount.String())
	case ours >= 0 && found[ours].Amount != s.Amount:
		differs(OtherAmount, s.ChargeID, found[ours].Amount.String())
	}
	for i, p := range found {
		if len(found) == 1 || i == ours {
			continue
		}
		differs(ChargedTwice, p.ID, fmt.Sprintf("%s, one of %d charges", p.Amount, len(found)))
		if err := c.store.RecordAnomaly(ctx, s.OrderID, pgstore.AnomalySecondCharge, p.ID, "found by reconcile, the row has charge "+s.ChargeID); err != nil {
			return o, err
		}
	}
	return o, nil
}

// recent remembers the last orders, and forgets those before.
type recent struct {
	ring []uuid.UUID
	next int
	set  map[uuid.UUID]int // how often it stands in the ring
}

func (r *recent) add(id uuid.UUID) {
	if r.set == nil {
		r.set = map[uuid.UUID]int{}
	}
	if len(r.ring) < remembered {
		r.ring = append(r.ring, id)
	} else {
		oldest := r.ring[r.next]
		if r.set[oldest]--; r.set[oldest] == 0 {
			delete(r.set, oldest)
		}
		r.ring[r.next] = id
		r.next = (r.next + 1) % remembered
	}
	r.set[id]++
}

func (r *recent) has(id uuid.UUID) bool { return r.set[id] > 0 }
