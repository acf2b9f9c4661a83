package hold

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

func TestBreakerNeedsDistinctOrders(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	for range 20 {
		require.Equal(t, failure.OfDependency, fail(l, "same", failure.Provider5xx), "one order's 500 is no outage")
	}
	for i := range 3 {
		require.NotEqual(t, failure.OfSystem, fail(l, fmt.Sprint(i), failure.ProviderTimeout))
	}
	f := failure.New(failure.ProviderReset, "test")
	require.Equal(t, failure.OfSystem, l.Judge(Attempt{Order: "fifth", Began: l.cfg.Clock()}, f))
	require.Equal(t, failure.ProviderDown, f.Reason, "what is logged and shown is the outage")
	require.Equal(t, failure.ProviderDown, held(l))
	require.Equal(t, failure.OfSystem, fail(l, "sixth", failure.Provider5xx), "nothing is counted while held")
}

func TestASuccessBetweenKeepsTheBreakerClosed(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	for i := range 100 {
		require.NotEqual(t, failure.OfSystem, fail(l, fmt.Sprint(i), failure.Provider5xx))
		if i%4 == 3 {
			charge(l, "good")
		}
	}
	require.Empty(t, held(l))
}

func TestTwoFailuresFarApartAreAnOutageAtLowVolume(t *testing.T) { // H20
	l, now := newTestLine(t, failure.Hold)
	require.Equal(t, failure.OfDependency, fail(l, "a", failure.ProviderTimeout))
	*now = now.Add(5 * time.Second)
	require.Equal(t, failure.OfSystem, fail(l, "b", failure.ProviderTimeout))
}

// What was under way when an answer came weighs half: of a hundred requests that hang from one moment on, the first ten
// open the breaker.
func TestFailuresThatWereUnderWayAtTheLastAnswerWeighLess(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	before := *now
	*now = now.Add(time.Millisecond)
	charge(l, "good")
	timeOut := func(i int) failure.Fault {
		return l.Judge(Attempt{Order: fmt.Sprint(i), Began: before}, failure.New(failure.ProviderTimeout, "test"))
	}
	*now = now.Add(time.Second)
	for i := range 9 {
		require.NotEqual(t, failure.OfSystem, timeOut(i))
	}
	require.Equal(t, failure.OfSystem, timeOut(9))
}

// traffic is a stream of attempts, so many under way at a time, judged as they end.
type traffic struct {
	line     *Line
	now      *time.Time
	underWay attempts
	fails    func() bool
	good     func() time.Duration // how long an attempt takes that succeeds
	bad      func() time.Duration // and one that fails
	counted  int                  // failures that were counted
	random   *rand.Rand
}

type attempt struct {
	began, ends time.Time
	fails       bool
}

type attempts []attempt

func (a attempts) Len() int           { return len(a) }
func (a attempts) Less(i, j int) bool { return a[i].ends.Before(a[j].ends) }
func (a attempts) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *attempts) Push(x any)        { *a = append(*a, x.(attempt)) }
func (a *attempts) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// newTraffic starts the attempts. Times are drawn between half and one and a half of what is given.
func newTraffic(t *testing.T, underWay int, good, bad time.Duration) *traffic {
	t.Helper()
	l, now := newTestLine(t, failure.Hold)
	s := &traffic{line: l, now: now, random: rand.New(rand.NewPCG(1, 2))}
	about := func(d time.Duration) func() time.Duration {
		return func() time.Duration { return d/2 + time.Duration(s.random.Int64N(int64(d))) }
	}
	s.good, s.bad = about(good), about(bad)
	s.fails = func() bool { return false }
	for range underWay {
		s.begin()
	}
	return s
}

func (s *traffic) share(failing float64) {
	s.fails = func() bool { return s.random.Float64() < failing }
}

func (s *traffic) begin() {
	a := attempt{began: *s.now, fails: s.fails()}
	took := s.good
	if a.fails {
		took = s.bad
	}
	a.ends = a.began.Add(took())
	heap.Push(&s.underWay, a)
}

// run judges so many attempts, or until the breaker opens.
func (s *traffic) run(n int) (opened bool) {
	for i := range n {
		a := heap.Pop(&s.underWay).(attempt)
		*s.now = a.ends
		var f *failure.Error
		if a.fails {
			f = failure.New(failure.Provider5xx, "test")
		}
		if s.line.Judge(Attempt{Order: fmt.Sprint(i), Began: a.began, Answered: f == nil}, f) == failure.OfDependency {
			s.counted++
		}
		if r, _ := s.line.Held(); r != "" {
			return true
		}
		s.begin()
	}
	return false
}

// One order's 500 is no outage, three in ten are none; nine in ten are. Taken as they end, five failures in a row come
// every 600 attempts at three in ten.
func TestManyAtATime(t *testing.T) {
	const many = 20_000
	for _, c := range []struct {
		underWay  int
		good, bad time.Duration
	}{
		{256, 20 * time.Millisecond, 20 * time.Millisecond},
		{256, 20 * time.Millisecond, 5 * time.Millisecond},
		{256, 20 * time.Millisecond, 200 * time.Millisecond},
		{256, time.Second, time.Second},
		{32, 20 * time.Millisecond, 20 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d, %s, %s", c.underWay, c.good, c.bad), func(t *testing.T) {
			s := newTraffic(t, c.underWay, c.good, c.bad)
			require.False(t, s.run(c.underWay), "all is well")
			s.share(0.3)
			require.False(t, s.run(many), "three in ten fail")
			s.share(0.9)
			require.True(t, s.run(many), "nine in ten fail")
		})
	}
}

// An outage begins while many requests are under way, which are still answered; what fails meanwhile is counted, and it
// must not be much, whichever way the outage fails.
func TestAnOutageIsNoticedSoon(t *testing.T) {
	for _, c := range []struct{ good, bad time.Duration }{
		{20 * time.Millisecond, 5 * time.Millisecond},
		{time.Second, 5 * time.Millisecond},
		{20 * time.Millisecond, 10 * time.Second},
	} {
		t.Run(fmt.Sprintf("%s, %s", c.good, c.bad), func(t *testing.T) {
			s := newTraffic(t, 256, c.good, c.bad)
			require.False(t, s.run(5000))
			broke := *s.now
			s.share(1)
			require.True(t, s.run(5000))
			require.Less(t, s.now.Sub(broke), max(c.good, c.bad)*2)
			t.Logf("%d failures counted in %s", s.counted, s.now.Sub(broke))
			require.Less(t, s.counted, 256)
		})
	}
}
