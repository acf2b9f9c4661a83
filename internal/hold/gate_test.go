package hold

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

func TestEnter(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	leave, err := l.Enter(t.Context())
	require.NoError(t, err)
	leave()

	fail(l, "a", failure.DatabaseDown)
	const waiters = 20
	probes := make(chan func())
	errs := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	for range waiters {
		go func() {
			leave, err := l.Enter(ctx)
			if err != nil {
				errs <- err
				return
			}
			probes <- leave
		}()
	}
	var under []func()
	for range maxProbes { // none of them is judged: a provider that hangs
		under = append(under, <-probes)
	}
	select {
	case <-probes:
		t.Fatal("one probe too many")
	case <-time.After(50 * time.Millisecond): // longer than ten probe waits
	}
	fail(l, "a", failure.DatabaseDown)
	under[0]()
	under[0] = <-probes
	cancel()
	for range waiters - maxProbes - 1 {
		require.ErrorIs(t, <-errs, context.Canceled)
	}
	charge(l, "b")
	for _, leave := range under {
		leave()
	}
	require.Empty(t, held(l))
	leave, err = l.Enter(t.Context())
	require.NoError(t, err)
	leave()
}

// enterAll lets so many callers wait at the line, and returns when they do. got counts those that have entered.
func enterAll(t *testing.T, l *Line, n int) *atomic.Int64 {
	t.Helper()
	got := new(atomic.Int64)
	for range n {
		go func() {
			if _, err := l.Enter(t.Context()); err == nil {
				got.Add(1)
			}
		}()
	}
	synctest.Wait()
	require.Zero(t, got.Load())
	return got
}

func TestEveryoneRunsWhenTheLineOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newTestLine(t, failure.Hold)
		fail(l, "a", failure.DatabaseDown)
		entered := enterAll(t, l, 20)
		charge(l, "b")
		synctest.Wait()
		require.EqualValues(t, 20, entered.Load())
	})
}

// While the operator's switch is on nobody enters, not even a probe of a fault that held the line before and holds it after.
func TestPauseHasNoProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newTestLine(t, failure.Hold)
		var shown []string
		l.cfg.OnTransition = func(r failure.Reason, on bool) { shown = append(shown, fmt.Sprint(r, " ", on)) }
		l.Pause(true)
		l.Pause(true)
		fail(l, "a", failure.DatabaseDown) // was under way
		require.Equal(t, failure.OperatorPause, held(l))
		entered := enterAll(t, l, 2)
		time.Sleep(time.Hour) //nolint:forbidigo // of the bubble's clock: a probe is due
		synctest.Wait()
		require.Zero(t, entered.Load())

		l.Pause(false)
		synctest.Wait()
		require.Equal(t, failure.DatabaseDown, held(l))
		require.EqualValues(t, 1, entered.Load(), "the probe")
		charge(l, "b")
		synctest.Wait()
		require.EqualValues(t, 2, entered.Load())
		require.Equal(t, []string{"operator_pause true", "database_down true", "operator_pause false", "database_down false"}, shown)
	})
}

// A claim may meet the switch before it was read; neither a success that was under way nor any other message ends the pause.
func TestARefusedClaimPauses(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	require.Equal(t, failure.OfSystem, fail(l, "a", failure.OperatorPause))
	require.Equal(t, failure.OperatorPause, held(l))
	charge(l, "b")
	l.Published("b", "")
	fail(l, "", failure.NotJSON)
	require.Equal(t, failure.OperatorPause, held(l))
	l.Pause(false)
	require.Empty(t, held(l))
}

// Who waits for a probe when the switch is turned on waits for the switch from then on.
func TestPauseReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newTestLine(t, failure.Hold)
		fail(l, "a", failure.DatabaseDown)
		entered := enterAll(t, l, 20)
		l.Pause(true)
		synctest.Wait()
		time.Sleep(time.Hour) //nolint:forbidigo // of the bubble's clock: a probe is due
		charge(l, "b")        // the fault is over, the pause is not
		synctest.Wait()
		require.Zero(t, entered.Load())
		l.Pause(false)
		synctest.Wait()
		require.EqualValues(t, 20, entered.Load())
	})
}

// A partition was taken over while the line was held: what stands first was charged before or is no order at all, and proves
// nothing about the provider (torture, seed 9064). Each may let the next one probe at once.
func TestProbesThatProveNothingCostNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newTestLine(t, failure.Hold)
		l.cfg.ProbeMin, l.cfg.ProbeMax = time.Second, time.Second
		holdFor(t, l, failure.ProviderMisaddressed)
		began := time.Now()
		for i := range 400 {
			leave, err := l.Enter(t.Context())
			require.NoError(t, err)
			if i%4 == 0 {
				require.Equal(t, failure.OfMessage, l.Judge(Attempt{Order: "", Began: l.cfg.Clock()}, failure.New(failure.NotJSON, "test")))
			} else {
				l.Judge(Attempt{Order: fmt.Sprint(i), Began: l.cfg.Clock()}, nil)
			}
			leave()
		}
		require.NotEmpty(t, held(l))
		require.LessOrEqual(t, time.Since(began), time.Second, "only the first had to wait")
		for range 10 { // and what meets the fault waits as before
			leave, err := l.Enter(t.Context())
			require.NoError(t, err)
			fail(l, "c", failure.ProviderMisaddressed)
			leave()
		}
		require.Greater(t, time.Since(began), 5*time.Second)
	})
}

// "In progress" is no sign of life, so an order that the provider still works on cannot end the hold. It does not stand in
// the way of those that can: the gate lets them probe in turn, one a second.
func TestOrdersInProgressDoNotHideTheCure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newTestLine(t, failure.Hold)
		l.cfg.ProbeMin, l.cfg.ProbeMax = time.Second, time.Second
		holdFor(t, l, failure.ProviderDown)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const waiting = 6
		probed := make(chan int)
		for i := range waiting {
			go func() {
				for {
					leave, err := l.Enter(ctx)
					if err != nil {
						return
					}
					select {
					case probed <- i:
					case <-ctx.Done():
						return
					}
					l.Judge(Attempt{Order: fmt.Sprint(i), Began: l.cfg.Clock()}, failure.New(failure.ProviderInProgress, "test"))
					leave()
					<-time.After(100 * time.Millisecond) // as a message of a held line does
				}
			}()
		}
		began := time.Now()
		for range 3 {
			seen := map[int]bool{}
			for range waiting {
				seen[<-probed] = true
			}
			require.Len(t, seen, waiting, "each once before any of them again")
		}
		require.Equal(t, failure.ProviderDown, held(l))
		require.LessOrEqual(t, time.Since(began), 3*waiting*time.Second)
		fresh := make(chan struct{})
		go func() { // stands at the gate behind five others at most
			if leave, err := l.Enter(ctx); err == nil {
				charge(l, "fresh")
				leave()
				close(fresh)
			}
		}()
		cured := time.Now()
		for waitingStill := true; waitingStill; {
			select {
			case <-probed:
			case <-fresh:
				waitingStill = false
			}
		}
		require.Empty(t, held(l))
		require.LessOrEqual(t, time.Since(cured), (waiting+1)*time.Second)
	})
}
