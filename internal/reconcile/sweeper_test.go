package reconcile

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/testkit"
)

func (w *world) sweeper(change ...func(*SweeperConfig)) *Sweeper {
	w.t.Helper()
	cfg := SweeperConfig{Grace: time.Minute, Every: time.Hour, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	s, err := NewSweeper(cfg, w.store)
	require.NoError(w.t, err)
	return s
}

// orphan is a claim whose process died long ago.
func (w *world) orphan(ago string) *billing.Claim {
	w.t.Helper()
	c := w.claim(w.order())
	w.exec(`UPDATE charges SET lease_until = now() - $2::interval, last_sent_at = now() - $2::interval WHERE order_id = $1`, c.Order.ID, ago)
	return c
}

func TestSweep(t *testing.T) {
	w := newWorld(t)
	orphan, recent, live := w.orphan("2 minutes"), w.orphan("30 seconds"), w.claim(w.order())
	w.charged()
	swept, err := w.sweeper().Step(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, swept)
	h := w.row(orphan.Order)
	require.Equal(t, billing.Unknown, h.State)
	require.True(t, h.Unknown)
	require.Equal(t, "system", h.Past[0].Kind)
	require.NotEmpty(t, h.Past[0].Reason)
	require.Equal(t, 1, w.listed())
	for _, c := range []*billing.Claim{recent, live} {
		require.Equal(t, billing.InFlight, w.row(c.Order).State)
	}

	require.True(t, w.claim(orphan.Order).Unknown, "a message that comes later finds the outcome unknown")
}

// A sender that wakes up after its claim was swept must still have its success written.
func TestLateSuccessAfterTheSweep(t *testing.T) {
	w := newWorld(t)
	c := w.orphan("1 hour")
	_, err := w.sweeper().Step(t.Context())
	require.NoError(t, err)
	charge := w.move(c.Order)
	w.settle(c, billing.Settlement{State: billing.Succeeded, ProviderChargeID: charge.ID})
	require.Equal(t, billing.Succeeded, w.row(c.Order).State)
	require.Equal(t, charge.ID, w.row(c.Order).ProviderChargeID)

	require.Equal(t, 1, w.listed())
	_, err = w.sweeper(func(c *SweeperConfig) { c.Every = time.Nanosecond }).Step(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, w.listed(), "another instance has the lease, and does nothing")
	w.exec(`DELETE FROM leases`)
	_, err = w.sweeper().Step(t.Context())
	require.NoError(t, err)
	require.Zero(t, w.listed(), "known by now")
}

// The walk covers the whole table in small steps, wherever it begins, and goes round.
func TestSweepGoesRound(t *testing.T) {
	w := newWorld(t)
	for range 150 {
		w.orphan("1 hour")
	}
	pages, err := w.store.Pages(t.Context())
	require.NoError(t, err)
	require.Greater(t, pages, uint32(5))
	s := w.sweeper(func(c *SweeperConfig) { c.Pages = 1 })
	total, steps := int64(0), 0
	for ; steps < int(pages); steps++ {
		n, err := s.Step(t.Context())
		require.NoError(t, err)
		require.Less(t, n, int64(150), "one page at a time")
		total += n
	}
	require.EqualValues(t, 150, total)
	w.orphan("1 hour")
	for range 2 * pages {
		n, err := s.Step(t.Context())
		require.NoError(t, err)
		total += n
	}
	require.EqualValues(t, 151, total, "the next round finds what came since")
}

func TestOneInstanceSweeps(t *testing.T) {
	w := newWorld(t)
	first, second := w.sweeper(), w.sweeper()
	_, err := first.Step(t.Context())
	require.NoError(t, err)
	w.orphan("1 hour")
	swept, err := second.Step(t.Context())
	require.NoError(t, err)
	require.Zero(t, swept)
	swept, err = first.Step(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, swept)
	w.exec(`UPDATE leases SET expires_at = now() - interval '1 second'`)
	w.orphan("1 hour")
	swept, err = second.Step(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, swept, "the first is gone")
}

func TestSweeperRuns(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := w.sweeper(func(c *SweeperConfig) { c.Every = 5 * time.Millisecond })
	go func() { ended <- s.Run(ctx) }()
	w.orphan("1 hour")
	testkit.Eventually(t, func() bool { return w.listed() == 1 }, "swept")
	stop()
	require.NoError(t, testkit.Receive(t, ended, "the sweeper stops"))
	_, err := NewSweeper(SweeperConfig{}, w.store)
	require.Error(t, err)
}
