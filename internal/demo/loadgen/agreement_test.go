package loadgen

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/orders"
)

// The generator's word and the decoder's must be the same: they were written apart.
func TestTheDecoderAgrees(t *testing.T) {
	g := generator(t, Config{Seed: 3, Repeats: 0.1, Conflicts: 0.1, Bad: 0.3, Odd: 0.3, Currency: "EUR"})
	for range 1000 {
		e := g.Next()
		decoded, err := orders.Decode(e.Record.Value, "EUR")
		if e.Want.Outcome == Dead && e.Want.Reason != failure.OrderConflict {
			require.Error(t, err, e.Kind)
			require.Equal(t, e.Want.Reason, failure.Of(err).Reason, "%s: %v", e.Kind, err)
			continue
		}
		require.NoError(t, err, e.Kind)
		require.Equal(t, e.OrderID, decoded.OrderID, e.Kind)
		if e.Want.Outcome == Charged {
			require.Equal(t, e.Want.Amount, decoded.Amount, e.Kind)
		}
	}
}
