package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/audit"
	"example.com/billing/internal/failure"
)

func (a *actor) look() {
	a.s.t.Helper()
	require.NoError(a.s.t, a.Look(a.s.t.Context()))
}

// later lets the row of the flood grow old, unless an instance renews it.
func (s *scene) later() {
	s.t.Helper()
	_, err := s.db.Pool.Exec(s.t.Context(), `UPDATE dead_letter_flood SET seen_at = seen_at - interval '1 minute'`)
	require.NoError(s.t, err)
}

// A restart in a flood changes nothing; once the flood is over the next one starts without (hazard H25).
func TestAFloodIsRemembered(t *testing.T) {
	s := newScene(t)
	first := s.start()
	first.look()
	require.Nil(t, first.withheld)
	first.Flooded()
	first.look()

	second := s.start() // the first one was killed
	second.look()
	require.NotNil(t, second.withheld)
	third := s.start()
	third.look()
	require.NotNil(t, third.withheld)

	second.withheld = nil // over for it
	s.later()
	third.look() // not for this one
	second.look()
	fourth := s.start()
	fourth.look()
	require.NotNil(t, fourth.withheld)
	third.withheld, fourth.withheld = nil, nil
	s.later()
	third.look()
	fourth.look()
	fifth := s.start()
	fifth.look()
	require.Nil(t, fifth.withheld)
}

// What a person lets go is shared by the instances, each as far as messages wait there, and is gone with the flood.
func TestAccept(t *testing.T) {
	s := newScene(t)
	anna := audit.Actor{Name: "anna", Role: "operator"}
	accept := func(r failure.Reason, n int64) (int64, error) {
		return NewSwitch(s.db.Pool).Accept(t.Context(), Acceptance{Code: r, Count: n, By: anna, Reason: "looked at them", RequestID: "r-1"})
	}
	_, err := accept(failure.NotJSON, 5)
	require.ErrorIs(t, err, ErrNoFlood)

	one, two := s.start(), s.start()
	one.withheld = map[failure.Reason]int{failure.NotJSON: 30, failure.Declined: 7}
	two.withheld = map[failure.Reason]int{failure.NotJSON: 100}
	one.look()
	two.look()
	left, err := accept(failure.NotJSON, 20)
	require.NoError(t, err)
	require.EqualValues(t, 20, left)
	left, err = accept(failure.NotJSON, 40)
	require.NoError(t, err)
	require.EqualValues(t, 60, left)
	one.look()
	two.look()
	require.Equal(t, map[failure.Reason]int{failure.NotJSON: 30}, one.accepted)
	require.Equal(t, map[failure.Reason]int{failure.NotJSON: 30}, two.accepted)
	two.look()
	require.Equal(t, 30, two.accepted[failure.NotJSON], "no more than was accepted")

	_, err = accept(failure.Declined, 1000)
	require.NoError(t, err)
	one.look()
	require.Equal(t, 7, one.accepted[failure.Declined])
	one.withheld, two.withheld = nil, nil
	s.later()
	one.look()
	two.look()
	one.Flooded()
	one.withheld[failure.Declined] = 100
	one.look()
	require.Equal(t, 7, one.accepted[failure.Declined], "what was not used ends with its flood")

	entries, err := audit.New(s.db.Pool).List(t.Context(), audit.Query{Limit: 9})
	require.NoError(t, err)
	require.Len(t, entries, 3)
	require.Equal(t, "anna consumption.accept looked at them", entries[0].Actor.Name+" "+entries[0].Action+" "+entries[0].Reason)
}

// Messages that wait at an instance move with their partition. What was let go for them moves too: a frozen instance that had
// them for a second must not keep it (torture, seed 1796099181542).
func TestWhatIsNotUsedIsGivenBack(t *testing.T) {
	s := newScene(t)
	one, two := s.start(), s.start()
	one.withheld = map[failure.Reason]int{failure.NotJSON: 30}
	one.look()
	_, err := NewSwitch(s.db.Pool).Accept(t.Context(), Acceptance{
		Code: failure.NotJSON, Count: 30, By: audit.Actor{Name: "anna", Role: "operator"}, Reason: "looked at them", RequestID: "r-1",
	})
	require.NoError(t, err)

	one.hold(failure.ProviderDown)
	one.look()
	require.Zero(t, one.accepted[failure.NotJSON], "it can handle nothing now")
	one.hold("")
	one.look()
	require.Equal(t, 30, one.accepted[failure.NotJSON])

	one.withheld, one.unused = map[failure.Reason]int{}, map[failure.Reason]int{failure.NotJSON: 30}
	two.withheld = map[failure.Reason]int{failure.NotJSON: 30}
	one.look()
	two.look()
	require.Zero(t, one.accepted[failure.NotJSON])
	require.Equal(t, 30, two.accepted[failure.NotJSON])
}

func TestTheDeadOfTheLastMinuteAreInherited(t *testing.T) {
	s := newScene(t)
	require.Zero(t, s.start().died)
	_, err := s.db.Pool.Exec(t.Context(), `
		INSERT INTO dead_letters (topic, topic_id, partition, "offset", class, reason, error, failures, dead_at)
		SELECT 't', gen_random_uuid(), 0, n, 'invalid', 'not_json', '', 1, now() - CASE WHEN n < 30 THEN interval '2 minutes' ELSE interval '10 seconds' END
		  FROM generate_series(1, 49) AS n`)
	require.NoError(t, err)
	require.Equal(t, 20, s.start().died)
}

// Three instances share one limit of dead letters; one that is killed shares it for half a minute more.
func TestInstancesAreCounted(t *testing.T) {
	s := newScene(t)
	one := s.start()
	require.Equal(t, 1, one.among)
	two, three := s.start(), s.start()
	require.Equal(t, 3, three.among, "it knows before it consumes")
	one.look()
	two.look()
	require.Equal(t, []int{3, 3}, []int{one.among, two.among})
	_, err := s.db.Pool.Exec(t.Context(), `UPDATE instances SET updated_at = now() - interval '31 seconds' WHERE id = $1`, three.peers.own)
	require.NoError(t, err)
	one.look()
	require.Equal(t, 2, one.among)
	two.takeLeave()
	one.look()
	require.Equal(t, 1, one.among)
}

// A flood that ends at one instance ends nothing at another: neither what a person let go there, nor the call itself.
func TestAFloodThatEndsElsewhereKeepsWhatWasLetGo(t *testing.T) {
	accept := func(s *scene) (int64, error) {
		return NewSwitch(s.db.Pool).Accept(t.Context(), Acceptance{
			Code: failure.NotJSON, Count: 100, By: audit.Actor{Name: "anna", Role: "operator"}, Reason: "looked at them", RequestID: "r-1",
		})
	}
	two := func(t *testing.T) (s *scene, over, flooded *actor) {
		s = newScene(t)
		over, flooded = s.start(), s.start()
		over.withheld = map[failure.Reason]int{}
		flooded.withheld = map[failure.Reason]int{failure.NotJSON: 10}
		over.look()
		flooded.look()
		return s, over, flooded
	}
	t.Run("what was let go", func(t *testing.T) {
		s, over, flooded := two(t)
		left, err := accept(s)
		require.NoError(t, err)
		require.EqualValues(t, 100, left)
		flooded.look() // takes for the ten that wait
		require.Equal(t, 10, flooded.accepted[failure.NotJSON])
		over.withheld = nil
		over.look()
		flooded.withheld = map[failure.Reason]int{failure.NotJSON: 90} // the next ones of the same backlog
		flooded.look()
		require.Equal(t, 100, flooded.accepted[failure.NotJSON])
	})
	t.Run("the call", func(t *testing.T) {
		s, over, _ := two(t)
		over.withheld = nil
		over.look()
		_, err := accept(s)
		require.NoError(t, err, "ten messages are withheld by the other one")
	})
}
