package reconcile

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// weighty is a provider whose charges have sizes: a page of more than ten in all is too large to take.
func weighty(w *world, size map[string]int, asked *[]int) provider {
	p := provider{Provider: w.provider}
	p.list = func(ctx context.Context, from, to time.Time, cursor string, limit int) ([]billing.ListedCharge, string, error) {
		*asked = append(*asked, limit)
		page, next, err := w.provider.List(ctx, from, to, cursor, limit)
		sum := 0
		for _, charge := range page {
			sum += max(1, size[charge.ID])
		}
		if err == nil && sum > 10 {
			return nil, "", failure.New(failure.ProviderBadAnswer, "reading the answer: %w", billing.ErrTooLarge)
		}
		return page, next, err
	}
	return p
}

// A list whose pages are too large is read in smaller ones, each charge once.
func TestSmallerPagesAreAskedFor(t *testing.T) {
	w := newWorld(t)
	size := map[string]int{}
	for n := range 40 {
		_, charge := w.charged()
		size[charge.ID] = 1 + n%4
	}
	var asked []int
	r := w.compared(w.reconcilerOf(weighty(w, size, &asked)))
	require.Zero(t, r.Findings)
	require.Equal(t, []int{40, 40}, []int{r.There, r.Here})
	require.Less(t, slices.Min(asked), 10)
}

// A single charge that is too large is told, wherever it stands, and what comes before and after it is compared.
func TestASingleChargeThatIsTooLarge(t *testing.T) {
	for name, at := range map[string][]int{"first": {0}, "last": {11}, "in between": {5}, "several": {3, 4, 8}, "all": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			size, missing := map[string]int{}, 0
			for n := range 12 {
				after(t, time.Now().Add(3*time.Millisecond)) // each in a millisecond of its own
				if n == 7 {
					o := w.order()
					w.settle(w.claim(o), billing.Settlement{State: billing.Succeeded, ProviderChargeID: "ch_none"})
					missing++
				}
				_, charge := w.charged()
				if slices.Contains(at, n) {
					size[charge.ID] = 11
				}
			}
			var asked []int
			r := w.compared(w.reconcilerOf(weighty(w, size, &asked)))
			require.Equal(t, map[Kind]int{Unreadable: len(at), MissingThere: missing}, kinds(r.Findings))
			for _, d := range r.Findings.Listed {
				require.True(t, d.Kind == MissingThere || d.OrderID == uuid.Nil)
			}
			require.Equal(t, []int{12, 13}, []int{r.There, r.Here})
			require.Less(t, len(asked), 30*(1+len(at)))
		})
	}
}
