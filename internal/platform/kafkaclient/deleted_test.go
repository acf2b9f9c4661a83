package kafkaclient_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/platform/kafkaclient"
)

// deleteBelow deletes the records of the only partition below an offset, as retention does.
func (f fixture) deleteBelow(t *testing.T, offset int64) {
	t.Helper()
	_, err := f.Admin.DeleteRecords(t.Context(), kadm.OffsetsList{{Topic: f.topic, Partition: 0, At: offset}}.Offsets())
	require.NoError(t, err)
}

// losses keeps what a consumer is told of deleted records.
type losses struct {
	mu   sync.Mutex
	told [][2]int64
	away atomic.Bool
}

func (l *losses) lost(_ context.Context, _ string, _ int32, from, to int64) error {
	if l.away.Load() {
		return errors.New("the database is away")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, [2]int64{from, to})
	return nil
}

func (l *losses) all() [][2]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([][2]int64(nil), l.told...)
}

// H12: what retention deleted before it was handled is told, wherever the group's offset and our books stood.
func TestRecordsLostToRetentionAreTold(t *testing.T) {
	for name, row := range map[string]struct {
		committed int64 // 0: nothing was
		taken     map[int32]int64
		deleted   int64 // below this offset
		want      [][2]int64
	}{
		"behind the committed offset":           {60, map[int32]int64{0: 60}, 70, [][2]int64{{60, 70}}},
		"all that there was":                    {60, map[int32]int64{0: 60}, 100, [][2]int64{{60, 100}}},
		"handled, the offset was not stored":    {60, map[int32]int64{0: 75}, 70, nil},
		"some handled, the offset not stored":   {60, map[int32]int64{0: 75}, 80, [][2]int64{{75, 80}}},
		"below what a stranger has committed":   {60, map[int32]int64{0: 40}, 50, [][2]int64{{40, 50}}},
		"the brokers have forgotten the offset": {0, map[int32]int64{0: 40}, 50, [][2]int64{{40, 50}}},
		"handled before":                        {60, map[int32]int64{0: 60}, 50, nil},
		"before the group was there":            {0, nil, 50, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1)
			if row.committed > 0 {
				f.leftAt(t, row.committed)
			} else {
				f.produce(100, "")
			}
			f.deleteBelow(t, row.deleted)
			var l losses
			c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) {
				c.Lost = l.lost
				c.Taken = func(context.Context, string) (map[int32]int64, error) { return row.taken, nil }
			}, func(context.Context, kafkaclient.Message) error { return nil })
			eventually(t, func() bool { return len(c.State()) == 1 }) // the group is there
			eventually(t, func() bool { return f.committed(t) == 100 })
			require.NoError(t, stop())
			require.Equal(t, row.want, l.all())
		})
	}
}

// H12, while the partition is read: the window is full, the line held say, and retention overtakes it. The offset does not
// pass the loss before it is told.
func TestRecordsDeletedWhileTheLineIsHeldAreTold(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(100, "")
	var l losses
	l.away.Store(true)
	held := make(chan struct{})
	c, stop := f.start(t, func(c *kafkaclient.ConsumerConfig) {
		c.Lost, c.Window = l.lost, 10
	}, func(ctx context.Context, _ kafkaclient.Message) error {
		select {
		case <-held:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	eventually(t, func() bool { return paused(c, "full") })
	received := int64(c.State()[0].Unfinished)
	f.deleteBelow(t, 90)
	close(held)
	eventually(t, func() bool { return c.State()[0].Unfinished == 0 && c.State()[0].Paused == "" && f.committed(t) > 0 })
	require.LessOrEqual(t, f.committed(t), received, "the loss is not told yet")
	l.away.Store(false)
	eventually(t, func() bool { return f.committed(t) == 100 })
	require.NoError(t, stop())
	require.Equal(t, [][2]int64{{received, 90}}, l.all())
}

// Jumps over what is no record are no losses: transaction markers and aborted records, at the end and in between. Nor is what
// was deleted after it had been handled, or before the group began.
func TestWhatIsNoRecordIsNotLost(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	f.produce(10, "")
	f.deleteBelow(t, 3)
	var lost atomic.Int64
	count := newTally()
	tell := func(cfg *kafkaclient.ConsumerConfig) {
		cfg.Client.Extra["auto.commit.interval.ms"] = "100"
		cfg.Lost = func(context.Context, string, int32, int64, int64) error { lost.Add(1); return nil }
	}
	_, stop := f.start(t, tell, count.handle)
	eventually(t, func() bool { return f.Committed(f.group, f.topic)[0] == 10 })
	f.transact(t, kgo.TryAbort)
	f.transact(t, kgo.TryCommit)
	f.produce(5, "")
	f.transact(t, kgo.TryCommit)
	eventually(t, func() bool { return count.handled() == 7+3+5+3 })
	end := f.Committed(f.group, f.topic)[0]
	eventually(t, func() bool { end = f.Committed(f.group, f.topic)[0]; return end == 10+4+4+5+4 })
	require.NoError(t, stop())
	f.deleteBelow(t, end)
	_, stop = f.start(t, tell, count.handle)
	f.produce(5, "")
	eventually(t, func() bool { return f.Committed(f.group, f.topic)[0] == end+5 })
	require.NoError(t, stop())
	require.Zero(t, lost.Load())
}
