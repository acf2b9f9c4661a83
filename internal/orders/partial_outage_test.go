package orders

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// A provider that fails a share of its requests for ten minutes (one of three nodes is sick, or one of ten is left), then
// is cured: no order is at fault, so none may die.
func TestAPartialOutageCostsNoOrder(t *testing.T) {
	for _, share := range []float64{0.33, 0.5, 0.7, 0.85} {
		for _, every := range []time.Duration{fast, slow / 2} {
			t.Run(fmt.Sprintf("%v of the requests, an order every %s", share, every), func(t *testing.T) {
				var mu sync.Mutex
				rnd := rand.New(rand.NewPCG(1, 2))
				unlucky := func() bool {
					mu.Lock()
					defer mu.Unlock()
					return rnd.Float64() < share
				}
				o := endure(t, every, false, func(step string) error {
					if step != atCharge || !unlucky() {
						return nil
					}
					return failure.New(failure.Provider5xx, "the provider answered 503")
				})
				t.Logf("%+v", o)
				require.Zero(t, o.twice+o.missing, "%+v", o)
				require.Zero(t, o.dead, "%+v", o)
			})
		}
	}
}
