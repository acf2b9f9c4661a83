package fleet

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/testkit"
)

const leaveAfter = 2 * time.Minute

// scene is some instances on one database. Their clock stands still until it is moved; the database's does not.
type scene struct {
	t      *testing.T
	db     *testkit.Database
	now    time.Time
	actors []*actor
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return &scene{t: t, db: testkit.Postgres(t), now: time.Now()}
}

// actor is an instance whose line the test plays.
type actor struct {
	*Instance
	s        *scene
	reason   failure.Reason
	since    time.Time
	answered time.Time
	paused   time.Time // when; zero: not
	joins    chan context.Context
	in       context.Context // ends when it leaves the groups
	withheld map[failure.Reason]int
	accepted map[failure.Reason]int
	unused   map[failure.Reason]int // of what was accepted
	died     int
	among    int
}

func (a *actor) Flood() (bool, map[failure.Reason]int) { return a.withheld != nil, a.withheld }

func (a *actor) Flooded() {
	if a.withheld == nil {
		a.withheld = map[failure.Reason]int{}
	}
}

func (a *actor) Died(n int) { a.died = n }

func (a *actor) Among(n int) { a.among = n }

func (a *actor) Inherit(r failure.Reason) { a.hold(r) }

func (a *actor) Accept(r failure.Reason, n int) { a.accepted[r] += n }

func (a *actor) Unaccept() map[failure.Reason]int {
	unused := a.unused
	a.unused = nil
	for r, n := range unused {
		a.accepted[r] -= n
	}
	return unused
}

func (a *actor) Held() (failure.Reason, time.Time) {
	if !a.paused.IsZero() {
		return failure.OperatorPause, a.paused
	}
	return a.reason, a.since
}

func (a *actor) Answered() time.Time { return a.answered }

func (a *actor) Pause(on bool) {
	switch {
	case !on:
		a.paused = time.Time{}
	case a.paused.IsZero():
		a.paused = a.s.now
	}
}

// start makes an instance that is in the groups. It looks when the scene moves.
func (s *scene) start() *actor {
	s.t.Helper()
	a := &actor{s: s, joins: make(chan context.Context), accepted: map[failure.Reason]int{}}
	var err error
	a.Instance, err = New(Config{LeaveAfter: leaveAfter, Clock: func() time.Time { return s.now }, Log: slog.New(slog.DiscardHandler)}, s.db.Pool, a)
	require.NoError(s.t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- a.Member(ctx, func(in context.Context) error {
			select {
			case a.joins <- in:
			case <-in.Done():
			}
			<-in.Done()
			return errors.New("did not close in time") // a disorder in leaving ends nothing
		})
	}()
	s.t.Cleanup(func() {
		stop()
		_ = testkit.Receive(s.t, ended, "Member ends") // with the disorder, if it was in the groups
	})
	require.NoError(s.t, a.Look(s.t.Context())) // as before the consumers of a service start
	a.requireJoins()
	s.actors = append(s.actors, a)
	return a
}

func (a *actor) requireJoins() {
	a.s.t.Helper()
	a.in = testkit.Receive(a.s.t, a.joins, "it joins")
	require.Zero(a.s.t, a.OutUntil())
}

func (a *actor) requireIn() {
	a.s.t.Helper()
	require.Zero(a.s.t, a.OutUntil())
	require.NoError(a.s.t, a.in.Err(), "it is in the groups")
}

func (a *actor) requireOut() {
	a.s.t.Helper()
	require.Error(a.s.t, a.in.Err(), "it has left the groups")
	require.True(a.s.t, a.OutUntil().After(a.s.now))
}

func (a *actor) hold(r failure.Reason) { a.reason, a.since = r, a.s.now }

// pass lets time go by; those who are well are answered, all tell, and all look.
func (s *scene) pass(d time.Duration, well ...*actor) {
	s.t.Helper()
	s.now = s.now.Add(d)
	for _, a := range well {
		a.answered = s.now
	}
	for _, a := range s.actors {
		a.toldAt = time.Time{} // as if the interval were over
		require.NoError(s.t, a.tell(s.t.Context()))
	}
	for _, a := range s.actors {
		require.NoError(s.t, a.Look(s.t.Context()))
	}
}

func TestAnInstanceThatIsHeldAloneLeavesAndComesBack(t *testing.T) {
	s := newScene(t)
	alone, well := s.start(), s.start()
	s.pass(time.Minute, alone, well)
	alone.hold(failure.ProviderUnauthorized)
	s.pass(leaveAfter-time.Second, well)
	alone.requireIn()
	s.pass(time.Second, well)
	alone.requireOut()
	well.requireIn()

	longest := leaveAfter
	for range 5 { // the wait doubles, up to five times LeaveAfter, with jitter
		out := alone.OutUntil().Sub(s.now)
		require.GreaterOrEqual(t, out, longest/2)
		require.LessOrEqual(t, out, longest)
		s.pass(out-time.Second, well)
		alone.requireOut()
		s.pass(time.Second, well)
		alone.requireJoins()
		s.pass(leaveAfter-time.Second, well) // it has time to probe
		alone.requireIn()
		s.pass(time.Second, well)
		alone.requireOut()
		longest = min(2*longest, longestOut*leaveAfter)
	}

	s.pass(alone.OutUntil().Sub(s.now), well)
	alone.requireJoins()
	alone.hold("")
	s.pass(time.Second, alone, well)
	alone.hold(failure.ProviderUnauthorized)
	s.pass(leaveAfter, well)
	require.LessOrEqual(t, alone.OutUntil().Sub(s.now), leaveAfter, "the line has run meanwhile: the waits begin anew")
}

// Somebody must hold the partitions: the last one that was well is held, too, or has gone.
func TestOutOfTheGroupsItComesBackWhenNobodyElseIsWell(t *testing.T) {
	for name, end := range map[string]func(s *scene, well *actor){
		"held":   func(_ *scene, well *actor) { well.hold(failure.ProviderDown) },
		"stop":   func(s *scene, well *actor) { well.gone(s) },
		"killed": func(s *scene, well *actor) { well.stale(s) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			well, alone := s.start(), s.start()
			alone.hold(failure.ProviderDown)
			s.pass(leaveAfter, well)
			alone.requireOut()
			end(s, well)
			s.pass(time.Second)
			alone.requireJoins()
		})
	}
}

// gone stops the instance in order.
func (a *actor) gone(s *scene) {
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	require.NoError(s.t, a.Run(ctx))
	s.actors = s.actors[1:]
}

// stale is what is left of an instance that was killed.
func (a *actor) stale(s *scene) {
	_, err := s.db.Pool.Exec(s.t.Context(), `UPDATE instances SET updated_at = updated_at - $2::interval WHERE id = $1`, a.peers.own, stale)
	require.NoError(s.t, err)
	s.actors = s.actors[1:]
}

// Nobody leaves in an outage of all, nor for what the others would be held for as well.
func TestWhoStays(t *testing.T) {
	for name, play := range map[string]func(s *scene, one, other *actor){
		"the other was answered before, not since": func(s *scene, one, other *actor) {
			s.pass(time.Second, other)
			s.pass(time.Second)
			one.hold(failure.ProviderDown)
		},
		"the other was answered since, and is held now": func(s *scene, one, other *actor) {
			one.hold(failure.ProviderDown)
			s.pass(time.Second, other)
			other.hold(failure.ProviderTLS)
		},
		"a flood of dead letters": func(s *scene, one, other *actor) {
			one.hold(failure.DeadLetterFlood)
			s.pass(time.Second, other)
		},
		"a database that is down": func(s *scene, one, other *actor) {
			one.hold(failure.DatabaseDown)
			s.pass(time.Second, other)
		},
		"paused": func(s *scene, one, other *actor) {
			_, err := s.db.Pool.Exec(s.t.Context(), `INSERT INTO operator_pause (actor, reason) VALUES ('olga', 'test')`)
			require.NoError(s.t, err)
			one.hold(failure.ProviderDown)
			s.pass(time.Second, other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			one, other := s.start(), s.start()
			play(s, one, other)
			s.pass(leaveAfter)
			s.pass(leaveAfter)
			one.requireIn()
			other.requireIn()
		})
	}
	t.Run("the last one", func(t *testing.T) {
		s := newScene(t)
		one, other := s.start(), s.start()
		one.hold(failure.BrokerDown)
		s.pass(leaveAfter, other)
		one.requireOut()
		other.hold(failure.BrokerDown)
		s.pass(leaveAfter)
		other.requireIn()
	})
}

// While the database cannot be asked nothing changes, but nobody stays out for longer than planned.
func TestWithoutTheDatabase(t *testing.T) {
	s := newScene(t)
	well, alone := s.start(), s.start()
	alone.hold(failure.DatabaseReadOnly)
	s.pass(leaveAfter, well)
	alone.requireOut()
	_, err := s.db.Pool.Exec(t.Context(), `ALTER TABLE instances RENAME TO elsewhere`)
	require.NoError(t, err)
	s.now = s.now.Add(time.Second)
	require.Error(t, alone.Look(t.Context()))
	alone.requireOut()
	s.now = alone.OutUntil()
	require.Error(t, alone.Look(t.Context()))
	alone.requireJoins()
	s.now = s.now.Add(leaveAfter)
	require.Error(t, alone.Look(t.Context()))
	alone.requireIn()
}

// A stop ends Member while the instance is out of the groups, too; a consumer that fails ends it with its error.
func TestMemberEnds(t *testing.T) {
	s := newScene(t)
	well, alone := s.start(), s.start() // their clean-up stops one in the groups, and one out of them
	alone.hold(failure.ProviderDown)
	s.pass(leaveAfter, well)
	alone.requireOut()
	fatal := errors.New("fatal")
	require.ErrorIs(t, well.Member(t.Context(), func(context.Context) error { return fatal }), fatal)
}

// What is told is told at every change and now and then, not at every look.
func TestTelling(t *testing.T) {
	s := newScene(t)
	a := s.start()
	told := func() (at time.Time) {
		t.Helper()
		require.NoError(t, a.Look(t.Context()))
		require.NoError(t, s.db.Pool.QueryRow(t.Context(), `SELECT updated_at FROM instances WHERE id = $1`, a.peers.own).Scan(&at))
		return at
	}
	first := told()
	s.now = s.now.Add(tellEvery - time.Second)
	require.Equal(t, first, told())
	a.hold(failure.ProviderDown)
	changed := told()
	require.NotEqual(t, first, changed)
	s.now = s.now.Add(tellEvery)
	require.NotEqual(t, changed, told())
	_, err := s.db.Pool.Exec(t.Context(), `UPDATE instances SET updated_at = updated_at - interval '1 day'`)
	require.NoError(t, err)
	s.start()
	s.pass(time.Second)
	var rows int
	require.NoError(t, s.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM instances`).Scan(&rows))
	require.Equal(t, 2, rows, "its own old row is renewed")
	s.actors = s.actors[1:]
	_, err = s.db.Pool.Exec(t.Context(), `UPDATE instances SET updated_at = updated_at - interval '1 day' WHERE id = $1`, a.peers.own)
	require.NoError(t, err)
	s.pass(time.Second)
	require.NoError(t, s.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM instances`).Scan(&rows))
	require.Equal(t, 1, rows, "one of an instance that is long gone is removed")
}

// An instance that starts in an outage starts held: for what holds another one, or has held the one before it (H33).
func TestAHoldIsInherited(t *testing.T) {
	s := newScene(t)
	first := s.start()
	first.hold(failure.ProviderDown)
	first.look()
	second := s.start()
	second.look()
	require.Equal(t, failure.ProviderDown, second.reason)

	first.takeLeave() // both are stopped
	second.look()
	second.takeLeave()
	third := s.start()
	third.look()
	require.Equal(t, failure.ProviderDown, third.reason)

	s.now = s.now.Add(tellEvery)
	third.reason, third.answered = "", s.now // cured
	third.look()
	fourth := s.start()
	fourth.look()
	require.Empty(t, fourth.reason)
}
