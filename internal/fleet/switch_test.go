package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/audit"
)

func TestSwitch(t *testing.T) {
	s := newScene(t)
	a := s.start()
	olga, anna := audit.Actor{Name: "olga", Role: "operator"}, audit.Actor{Name: "anna", Role: "approver"}
	turn := func(on bool, by audit.Actor, reason string) *Pause {
		t.Helper()
		p, err := NewSwitch(s.db.Pool).Turn(t.Context(), Order{On: on, By: by, Reason: reason, RequestID: "r-1"})
		require.NoError(t, err)
		require.NoError(t, a.Look(t.Context()))
		require.Equal(t, p, a.Paused())
		require.Equal(t, on, !a.paused.IsZero(), "the line follows")
		return p
	}
	require.NoError(t, a.Look(t.Context()))
	require.Nil(t, a.Paused())
	require.Zero(t, a.paused)

	first := turn(true, olga, "the provider moves")
	require.Equal(t, []string{"olga", "the provider moves"}, []string{first.By, first.Reason})
	require.WithinDuration(t, time.Now(), first.Since, time.Minute)
	require.Equal(t, first, turn(true, anna, "me too"), "it stays the first one's pause")
	late := s.start()
	require.NoError(t, late.Look(t.Context()))
	require.NotZero(t, late.paused, "who starts while it is paused starts paused")

	require.Nil(t, turn(false, anna, "it has moved"))
	require.Nil(t, turn(false, olga, "twice"))
	entries, err := audit.New(s.db.Pool).List(t.Context(), audit.Query{Limit: 9})
	require.NoError(t, err)
	var trail []string
	for _, e := range entries {
		require.Equal(t, "r-1", e.RequestID)
		trail = append(trail, e.Actor.Name+" "+e.Action+" "+e.Outcome+": "+e.Reason)
	}
	require.Equal(t, []string{
		"olga consumption.resume was not paused: twice", "anna consumption.resume resumed: it has moved",
		"anna consumption.pause was paused: me too", "olga consumption.pause paused: the provider moves",
	}, trail)
}
