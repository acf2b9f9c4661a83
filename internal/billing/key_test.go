package billing

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

var (
	goldenOrder    = uuid.MustParse("0190f5a2-7c1e-7b3a-8f00-0000000000a1")
	goldenCustomer = uuid.MustParse("0190f5a2-7c1e-7b3a-8f00-0000000000c1")
)

// These keys are pinned: the provider remembers the keys of yesterday's release, and a changed one would charge again.
func TestIdempotencyKeyNeverChanges(t *testing.T) {
	for _, c := range []struct {
		environment, account string
		generation           int
		want                 string
	}{
		{"default", "default", 1, "c84fba4d-8193-572c-b8a8-136b6bebb5d1"},
		{"default", "default", 2, "62967985-80b5-503b-95c4-bbee8dd14d7c"},
		{"production", "default", 1, "5d0989b7-44c5-57ed-b7af-9c676188c7c8"},
		{"default", "eu", 1, "ca6904b8-688d-59f5-8053-4d25e9e189ec"},
	} {
		key := IdempotencyKey(c.environment, c.account, goldenOrder, c.generation)
		require.Equal(t, c.want, key.String())
		require.Equal(t, key, IdempotencyKey(c.environment, c.account, goldenOrder, c.generation))
		require.EqualValues(t, 5, key.Version())
	}
}

func TestIdempotencyKeyDiffersInEachPart(t *testing.T) {
	keys := map[uuid.UUID]bool{}
	for _, environment := range []string{"a", "b"} {
		for _, account := range []string{"a", "b"} {
			for _, order := range []uuid.UUID{goldenOrder, goldenCustomer} {
				for generation := range 3 {
					keys[IdempotencyKey(environment, account, order, generation)] = true
				}
			}
		}
	}
	require.Len(t, keys, 2*2*2*3)
}
