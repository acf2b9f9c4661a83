package pgstore

import (
	"bytes"
	"slices"
	"strings"
)

// maxText bounds what an answer of the provider can make us store.
const maxText = 2048

// clean makes a text that Postgres takes, out of whatever a provider may send: without NUL, valid UTF-8, bounded.
func clean(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "�"), "�")
}

func texts(n int) []string { return make([]string, n) }

// sortedByOrder leaves the batch itself as it is.
func sortedByOrder(batch []*settleJob) []*settleJob {
	return slices.SortedFunc(slices.Values(batch), func(a, b *settleJob) int {
		return bytes.Compare(a.in.claim.Order.ID[:], b.in.claim.Order.ID[:])
	})
}
