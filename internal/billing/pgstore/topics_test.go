package pgstore

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestTopicsAreKnownByTheirIncarnation(t *testing.T) { // H11
	s := newFixture(t)
	first := map[string]uuid.UUID{"orders": uuid.New(), "orders.retry": uuid.New()}
	require.NoError(t, s.KnowTopics(t.Context(), first))
	require.NoError(t, s.KnowTopics(t.Context(), first), "the same again")
	again := map[string]uuid.UUID{"orders": first["orders"], "orders.retry": uuid.New(), "orders.new": uuid.New()}
	err := s.KnowTopics(t.Context(), again)
	var recreated *RecreatedError
	require.ErrorAs(t, err, &recreated)
	require.Equal(t, []string{"orders.retry"}, recreated.Topics)
	require.ErrorContains(t, err, "billing topics accept")

	require.NoError(t, s.AcceptTopics(t.Context(), again))
	require.NoError(t, s.KnowTopics(t.Context(), again))
	for name, want := range map[string]uuid.UUID{"orders.retry": again["orders.retry"], "elsewhere": uuid.Nil} {
		id, err := s.KnownTopic(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
}
