package kafkaclient_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/platform/kafkaclient"
)

// Our books decide where reading begins if they know of less than the group has committed (H27). While they cannot be asked
// the partition waits: it begins nowhere.
func TestReadingBeginsWhereTheBooksEnd(t *testing.T) {
	for name, row := range map[string]struct {
		taken map[int32]int64
		from  int64
	}{
		"as the group has committed": {map[int32]int64{0: 60}, 60},
		"the offset was not stored":  {map[int32]int64{0: 75}, 60},
		"set back":                   {map[int32]int64{0: 42}, 42},
		"nothing is known of it":     {map[int32]int64{1: 60}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1)
			f.leftAt(t, 60)
			var away atomic.Bool
			away.Store(true)
			var mu sync.Mutex
			again := map[int64]bool{}
			count := newTally()
			c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) {
				c.Taken = func(_ context.Context, topic string) (map[int32]int64, error) {
					if topic != f.topic || away.Load() {
						return nil, errors.New("the database is away")
					}
					return row.taken, nil
				}
			}, func(ctx context.Context, m kafkaclient.Message) error {
				mu.Lock()
				defer mu.Unlock()
				again[m.Offset] = m.Again
				return count.handle(ctx, m)
			})
			eventually(t, func() bool { return paused(c, "unplaced") })
			require.Zero(t, count.handled())
			away.Store(false)
			eventually(t, func() bool { return count.handled() == int(100-row.from) })
			require.NoError(t, stop())
			count.exactly(t, row.from, 100)
			for offset, a := range again {
				require.Equal(t, offset < 60, a, "offset %d", offset)
			}
			require.Equal(t, int64(100), f.committed(t))
		})
	}
}
