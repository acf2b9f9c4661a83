package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

const (
	maxTries = 5
	maxWait  = 30 * time.Second // whatever the provider asks for
)

// find looks an order up.
func (r *Reconciler) find(ctx context.Context, order uuid.UUID) (found []billing.ProviderCharge, consistent bool, err error) {
	err = r.patiently(ctx, func() error {
		found, consistent, err = r.provider.Find(ctx, order)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("look up order %s: %w", order, err)
	}
	return found, consistent, nil
}

// list reads a page of the provider's charges.
func (r *Reconciler) list(ctx context.Context, from, to time.Time, cursor string, limit int) (page []billing.ListedCharge, next string, err error) {
	err = r.patiently(ctx, func() error {
		page, next, err = r.provider.List(ctx, from, to, cursor, limit)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list charges made from %s on: %w", from.Format(time.RFC3339), err)
	}
	return page, next, nil
}

// patiently asks again a few times when the failure may pass by itself. An answer that cannot be read will not be another
// one a second later.
func (r *Reconciler) patiently(ctx context.Context, ask func() error) error {
	for try, wait := 1, r.cfg.Backoff; ; try, wait = try+1, 2*wait {
		err := ask()
		if err == nil {
			return nil
		}
		f := failure.Of(err)
		fault := f.Fault(failure.Hold)
		passing := fault == failure.OfDependency || fault == failure.OfMoment
		if !passing || f.Reason == failure.ProviderBadAnswer || try == maxTries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(max(wait, f.RetryAfter), maxWait)):
		}
	}
}

// unreadable reports whether the provider answered and nobody can tell what.
func unreadable(err error) bool {
	return failure.Of(err).Reason == failure.ProviderBadAnswer
}
