package pgstore

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestTopicsAreKnownByTheirIncarnation(t *testing.T) { // H11
	s := newFixture(t)
	orders, tier := KnownTopic{Name: "orders", ID: uuid.New(), Group: "g"}, KnownTopic{Name: "orders.retry", ID: uuid.New(), Group: "g-retry"}
	require.NoError(t, s.KnowTopics(t.Context(), []KnownTopic{orders, tier}))
	require.NoError(t, s.KnowTopics(t.Context(), []KnownTopic{orders, tier}), "the same again")
	tier.ID = uuid.New()
	again := []KnownTopic{orders, tier, {Name: "orders.new", ID: uuid.New(), Group: "g-new"}}
	err := s.KnowTopics(t.Context(), again)
	var recreated *RecreatedError
	require.ErrorAs(t, err, &recreated)
	require.Equal(t, []string{"orders.retry"}, recreated.Topics)
	require.ErrorContains(t, err, "billing topics accept")

	require.NoError(t, s.AcceptTopics(t.Context(), again))
	require.NoError(t, s.KnowTopics(t.Context(), again))
	for name, want := range map[string]uuid.UUID{"orders.retry": tier.ID, "elsewhere": uuid.Nil} {
		id, err := s.KnownTopic(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
}

// H28: what was read of a topic is known for as long as it is the same topic.
func TestKnownTopicsTellWhatWasRead(t *testing.T) {
	s := newFixture(t)
	tier := KnownTopic{Name: "orders.retry-5s", ID: uuid.New(), Group: "g-retry-5s", ReadTo: []int64{7, 0, 12}}
	require.NoError(t, s.KnowTopics(t.Context(), []KnownTopic{tier}))
	require.NoError(t, s.NoteRead(t.Context(), tier))
	known, err := s.KnownTopics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []KnownTopic{tier}, known)

	require.NoError(t, s.AcceptTopics(t.Context(), []KnownTopic{tier}))
	known, err = s.KnownTopics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []KnownTopic{tier}, known, "the same topic: nothing to accept")

	tier.ID, tier.ReadTo = uuid.New(), []int64{}
	require.NoError(t, s.AcceptTopics(t.Context(), []KnownTopic{tier}))
	known, err = s.KnownTopics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []KnownTopic{tier}, known)
}

// Topics that an older release has noted have no group; it follows from the name.
func TestTopicsOfAnOlderReleaseHaveTheirGroup(t *testing.T) {
	s := newFixture(t)
	require.NoError(t, s.Pin(t.Context(), Installation{Environment: "e", Account: "a", Group: "billing"}))
	_, err := s.other.Exec(t.Context(), `INSERT INTO known_topics (name, topic_id) VALUES ('orders.confirmed', $1), ('orders.confirmed.retry-1m30s', $1)`, uuid.New())
	require.NoError(t, err)
	known, err := s.KnownTopics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"billing", "billing-retry-1m30s"}, []string{known[0].Group, known[1].Group})
}

// How long it has been kept what is taken is that of the incarnation.
func TestHowLongBooksAreKept(t *testing.T) {
	s := newFixture(t)
	tier := KnownTopic{Name: "orders.retry-5s", ID: uuid.New(), Group: "g-retry-5s"}
	require.NoError(t, s.KnowTopics(t.Context(), []KnownTopic{tier}))
	kept := func() time.Duration {
		t.Helper()
		d, err := s.TakenFor(t.Context(), tier.ID)
		require.NoError(t, err)
		return d.Truncate(time.Hour)
	}
	require.Zero(t, kept(), "not yet")
	require.NoError(t, s.CountTaken(t.Context(), tier.ID, nil))
	_, err := s.pool.Exec(t.Context(), `UPDATE known_topics SET taken_since = taken_since - interval '3 hours'`)
	require.NoError(t, err)
	require.Equal(t, 3*time.Hour, kept())
	require.NoError(t, s.CountTaken(t.Context(), tier.ID, nil))
	require.Equal(t, 3*time.Hour, kept(), "another start")
	tier.ID = uuid.New()
	require.Zero(t, kept(), "another topic of the name")
}
