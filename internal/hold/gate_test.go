package hold

import (
	"context"
	"fmt"
	"testing"
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
	first := <-probes
	select {
	case <-probes:
		t.Fatal("two probes at a time")
	case <-time.After(50 * time.Millisecond): // longer than ten probe waits
	}
	fail(l, "a", failure.DatabaseDown)
	first()
	second := <-probes
	cancel()
	for range waiters - 2 {
		require.ErrorIs(t, <-errs, context.Canceled)
	}
	charge(l, "b")
	second()
	require.Empty(t, held(l))
	leave, err = l.Enter(t.Context())
	require.NoError(t, err)
	leave()
}

func TestEveryoneRunsWhenTheLineOpens(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	l.cfg.ProbeMin, l.cfg.ProbeMax = time.Hour, time.Hour
	fail(l, "a", failure.DatabaseDown)
	entered := make(chan error)
	for range 20 {
		go func() {
			_, err := l.Enter(t.Context())
			entered <- err
		}()
	}
	charge(l, "b")
	for range 20 {
		require.NoError(t, <-entered)
	}
}

// While the operator's switch is on nobody enters, not even a probe of a fault that held the line before and holds it after.
func TestPauseHasNoProbes(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	var shown []string
	l.cfg.OnTransition = func(r failure.Reason, on bool) { shown = append(shown, fmt.Sprint(r, " ", on)) }
	l.Pause(true)
	l.Pause(true)
	fail(l, "a", failure.DatabaseDown) // was under way
	require.Equal(t, failure.OperatorPause, held(l))
	entered := make(chan func())
	go func() {
		leave, err := l.Enter(context.Background())
		if err == nil {
			entered <- leave
		}
	}()
	select {
	case <-entered:
		t.Fatal("a probe while paused")
	case <-time.After(50 * time.Millisecond): // longer than ten probe waits
	}

	l.Pause(false)
	require.Equal(t, failure.DatabaseDown, held(l))
	leave := <-entered
	charge(l, "b")
	leave()
	require.Empty(t, held(l))
	require.Equal(t, []string{"operator_pause true", "database_down true", "operator_pause false", "database_down false"}, shown)
}

// A claim may meet the switch before it was read; neither a success that was under way nor any other message ends the pause.
func TestARefusedClaimPauses(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	require.Equal(t, failure.OfSystem, fail(l, "a", failure.OperatorPause))
	require.Equal(t, failure.OperatorPause, held(l))
	charge(l, "b")
	l.Published()
	fail(l, "", failure.NotJSON)
	require.Equal(t, failure.OperatorPause, held(l))
	l.Pause(false)
	require.Empty(t, held(l))
}

// Who waits for a probe when the switch is turned on waits for the switch from then on.
func TestPauseReachesThoseWhoWait(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	l.cfg.ProbeMin, l.cfg.ProbeMax = time.Hour, time.Hour
	fail(l, "a", failure.DatabaseDown)
	entered := make(chan error)
	for range 20 {
		go func() {
			_, err := l.Enter(t.Context())
			entered <- err
		}()
	}
	l.Pause(true)
	charge(l, "b") // the fault is over, the pause is not
	select {
	case <-entered:
		t.Fatal("entered while paused")
	case <-time.After(50 * time.Millisecond):
	}
	l.Pause(false)
	for range 20 {
		require.NoError(t, <-entered)
	}
}
