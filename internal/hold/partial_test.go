package hold

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// Many orders fail, and as many succeed between them: the failures are the provider's, and count against nobody.
func TestAPartialOutageIsNotCounted(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	for i := range 200 {
		*now = now.Add(10 * time.Millisecond)
		charge(l, fmt.Sprint("good", i))
		f := failure.New(failure.Provider5xx, "503")
		fault := l.Judge(Attempt{Order: fmt.Sprint(i), Began: *now}, f)
		require.Equal(t, i >= partialLeast, fault == failure.OfMoment, i)
		require.Equal(t, i >= partialLeast, f.RetryAfter == partialWait, i)
	}
	require.Empty(t, held(l))
	*now = now.Add(2 * partialFor)
	charge(l, "cured")
	require.Equal(t, failure.OfDependency, fail(l, "later", failure.Provider5xx))
}

// What an order meets again and again while others fare well is its own.
func TestAFewThatFailAmongManyAreCounted(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	for i := range 500 {
		*now = now.Add(10 * time.Millisecond)
		charge(l, fmt.Sprint("good", i))
		if i%10 == 0 { // of seven orders; one request in eleven
			require.Equal(t, failure.OfDependency, fail(l, fmt.Sprint(i/10%7), failure.Provider5xx))
		}
	}
	plain, _ := newTestLine(t, failure.Document)
	for i := range 100 {
		require.Equal(t, failure.OfDependency, fail(plain, fmt.Sprint(i), failure.Provider5xx), "the design document's plain table counts each")
	}
}
