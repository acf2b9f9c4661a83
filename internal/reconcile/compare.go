package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/pgstore"
)

const (
	overlap = time.Minute      // a resumed comparison begins this much earlier, so that it knows what came just before
	trail   = 10 * time.Second // our charges follow those of the provider at this distance: their clocks differ
)

// comparison walks along both sides in the order of time, page by page.
type comparison struct {
	*Reconciler
	*run
	seen recent // orders of the last charges that the provider listed
}

// compare goes through the range, from where the run stands.
func (r *Reconciler) compare(ctx context.Context, run *run, report *Report) error {
	r.store.PrepareSuccesses(ctx)
	c := comparison{Reconciler: r, run: run}
	at := place{from: later(run.From, run.thereUntil.Add(-overlap)), limit: pageSize}
	for {
		page, next, err := c.read(ctx, &at)
		if err != nil {
			return err
		}
		if next != "" && (len(page) == 0 || next == at.cursor) {
			return errors.New("the provider's list of charges does not come to an end")
		}
		if at.last, err = inOrder(page, at.last); err != nil {
			return err
		}
		if err := c.charges(ctx, page); err != nil {
			return err
		}
		there, here := at.last, at.last.Add(-trail)
		if next == "" {
			there, here = run.To, run.To
		}
		if err := c.successes(ctx, here); err != nil {
			return err
		}
		run.thereUntil = later(run.thereUntil, there)
		if err := r.saveRun(ctx, run, false); err != nil {
			return err
		}
		r.cfg.Progress(*report)
		if next == "" {
			return nil
		}
		at.cursor = next
	}
}

// inOrder checks that the list goes on where it stood: a comparison is resumed by time.
func inOrder(page []billing.ListedCharge, last time.Time) (time.Time, error) {
	for _, charge := range page {
		if charge.CreatedAt.Before(last) {
			return last, fmt.Errorf("the provider's list of charges is not in the order of time, at %s", charge.ID)
		}
		last = charge.CreatedAt
	}
	return last, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// charges compares a page of the provider's charges with our rows.
func (c *comparison) charges(ctx context.Context, page []billing.ListedCharge) error {
	orders := make([]uuid.UUID, 0, len(page))
	for _, charge := range page {
		if charge.CreatedAt.After(c.thereUntil) {
			c.There++
		}
		if charge.Problem != "" {
			c.Findings.add(Difference{Kind: Unreadable, ChargeID: charge.ID, There: charge.Problem})
			continue
		}
		c.seen.add(charge.Reference)
		orders = append(orders, charge.Reference)
	}
	rows, err := c.store.Rows(ctx, orders)
	if err != nil {
		return err
	}
	var doubtful []doubt
	for _, charge := range page {
		row, known := rows[charge.Reference]
		if charge.Problem == "" && (!known || !agrees(row, charge.ProviderCharge)) {
			doubtful = append(doubtful, doubt{charge.ProviderCharge, row})
		}
	}
	return c.weigh(ctx, doubtful)
}

func agrees(row pgstore.Row, charge billing.ProviderCharge) bool {
	return row.State == billing.Succeeded && row.ProviderChargeID == charge.ID && row.Amount == charge.Amount
}

// doubt is a charge of the provider that does not agree with our row.
type doubt struct {
	charge billing.ProviderCharge
	row    pgstore.Row // the zero one: there is none
}

// weigh tells differences from what is only on its way.
func (c *comparison) weigh(ctx context.Context, doubtful []doubt) error {
	outcomes, err := each(ctx, c.cfg.Lookups, doubtful, c.weighOne)
	for _, o := range outcomes {
		c.count(o)
	}
	return err
}

// outcome is what one look at an order adds to the report.
type outcome struct {
	differences                        []Difference
	lookedUp, resolved, busy, unproven int
}

func (c *comparison) count(o outcome) {
	for _, d := range o.differences {
		c.Findings.add(d)
	}
	c.LookedUp += o.lookedUp
	c.Resolved += o.resolved
	c.Busy += o.busy
	c.Unproven += o.unproven
}

func (c *comparison) weighOne(ctx context.Context, d doubt) (outcome, error) {
	differs := func(k Kind) outcome {
		return outcome{differences: []Difference{{Kind: k, OrderID: d.charge.Reference, ChargeID: d.charge.ID, There: d.charge.Amount.String(), Here: standing(d.row)}}}
	}
	switch {
	case d.row.State == billing.Succeeded && d.row.ProviderChargeID == d.charge.ID:
		return differs(OtherAmount), nil
	case d.row.State == billing.Succeeded:
		return c.inFull(ctx, pgstore.Success{OrderID: d.row.OrderID, ChargeID: d.row.ProviderChargeID, Amount: d.row.Amount})
	case d.row.Leased:
		return outcome{busy: 1}, nil
	case !d.row.Undecided():
		return differs(NotRecorded), nil
	}
	v, err := c.decide(ctx, d.row)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{lookedUp: 1}
	switch v.ending {
	case charged:
		o.resolved = 1
	case busy:
		o.busy = 1
	case inReview:
		o.differences = []Difference{v.difference}
	default: // the list has the charge, and the look-up has not
		o.differences = differs(NotRecorded).differences
	}
	return o, nil
}

func standing(row pgstore.Row) string {
	if row.State == "" {
		return "never heard of"
	}
	return fmt.Sprintf("%s %s %s", row.State, row.Amount, row.ProviderChargeID)
}
