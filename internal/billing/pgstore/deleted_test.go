package pgstore

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// H12: what retention deleted stays told until a person accepts it, and is told anew when it was more.
func TestDeletedRecordsAreKeptUntilAccepted(t *testing.T) {
	s := newFixture(t)
	d := Deleted{TopicID: uuid.New(), Topic: "orders", Partition: 2, From: 10, To: 17}
	other := Deleted{TopicID: d.TopicID, Topic: "orders", Partition: 3, From: 10, To: 11}
	note := func(d Deleted, fresh int64) {
		t.Helper()
		got, err := s.NoteDeleted(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, fresh, got)
	}
	open := func(want ...Deleted) {
		t.Helper()
		got, err := s.DeletedRecords(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	note(d, 7)
	note(d, 0)
	note(other, 1)
	open(d, other)

	accepted, err := s.AcceptDeleted(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []Deleted{d, other}, accepted)
	note(d, 0)
	got, err := s.DeletedRecords(t.Context())
	require.NoError(t, err)
	require.Empty(t, got)
	d.To = 20
	note(d, 3)
	open(d)
}
