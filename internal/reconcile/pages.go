package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/billing/internal/billing"
)

// pageSize is how many charges are asked for at a time; fewer while pages are too large to take.
const pageSize = 1000

// place is where the comparison stands on the provider's list.
type place struct {
	from   time.Time // the list begins here
	cursor string    // of the next page; empty for the first
	last   time.Time // of the last charge that was read
	limit  int
}

// read is the next page. One that is too large is asked for again with half the charges, down to one.
func (c *comparison) read(ctx context.Context, at *place) (page []billing.ListedCharge, next string, err error) {
	for {
		page, next, err = c.list(ctx, at.from, c.To, at.cursor, at.limit)
		switch {
		case err == nil:
			at.limit = min(pageSize, 2*at.limit)
			return page, next, nil
		case !errors.Is(err, billing.ErrTooLarge):
			return nil, "", err
		case at.limit > 1:
			at.limit /= 2
		default:
			if err := c.stepOver(ctx, at); err != nil {
				return nil, "", err
			}
		}
	}
}

// stepOver tells of a charge that is too large by itself, and goes on behind its millisecond. The way on stands in the
// answer that cannot be read, so the place is looked for by halves: the list up to an instant is empty or too large. What
// else was made in that millisecond is still found from our side, by its order.
func (c *comparison) stepOver(ctx context.Context, at *place) error {
	low, high, found := at.from, c.To, false
	if at.cursor != "" {
		low = at.last.Truncate(time.Millisecond).Add(time.Millisecond)
	}
	first := low
	for high.Sub(low) > time.Millisecond {
		middle := low.Add(high.Sub(low) / 2)
		_, _, err := c.list(ctx, first, middle, "", 1)
		switch {
		case errors.Is(err, billing.ErrTooLarge):
			high, found = middle, true
		case err != nil:
			return err
		default:
			low = middle
		}
	}
	if !found && at.cursor != "" { // made in the same millisecond as the charge before it, or in the last one of the range
		high = first
	}
	c.There++
	c.Findings.add(Difference{Kind: Unreadable, There: fmt.Sprintf("a charge made before %s, larger than is taken", high.UTC().Format(time.RFC3339Nano))})
	at.from, at.cursor = high, ""
	return nil
}
