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

// tries is the first attempt of an order.
func tries(l *Line, order string, fails bool) failure.Fault {
	if a := (Attempt{Order: order, Began: l.cfg.Clock(), First: true}); fails {
		return l.Judge(a, failure.New(failure.Provider5xx, "503"))
	}
	return l.Judge(Attempt{Order: order, Began: l.cfg.Clock(), First: true, Answered: true}, nil)
}

// Half of the orders fail at first, and none of them is at fault: up to three failures are counted, and the next one only when
// it can be no bad luck any more.
func TestAPartialOutageEndsNoOrder(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	last := func(earlier int) (failure.Fault, time.Duration) {
		f := failure.New(failure.Provider5xx, "503")
		return l.Judge(Attempt{Order: "x", Began: l.cfg.Clock(), Earlier: earlier, Last: true}, f), f.RetryAfter
	}
	for i := range 60 {
		*now = now.Add(time.Second)
		tries(l, fmt.Sprint("good", i), false)
		require.Equal(t, failure.OfDependency, tries(l, fmt.Sprint(i), true), i)
	}
	for earlier := 3; earlier < 14; earlier++ {
		tries(l, "good", false)
		fault, wait := last(earlier)
		require.Equal(t, failure.OfMoment, fault, earlier)
		require.Equal(t, sparedFor, wait)
	}
	tries(l, "good", false)
	fault, _ := last(20)
	require.Equal(t, failure.OfDependency, fault, "less than one in 100,000")
	tries(l, "good", false)
	*now = now.Add(partialFor)
	fault, _ = last(3)
	require.Equal(t, failure.OfDependency, fault, "the outage is over")
	require.Empty(t, held(l))
}

// The fourth failure is the last one where few others fail, or always the same.
func TestTheFourthFailureIsTheLast(t *testing.T) {
	for name, c := range map[string]struct {
		every   int // so many orders, one fails
		policy  failure.Policy
		outcome failure.Fault
	}{
		"one in four":                  {4, failure.Hold, failure.OfMoment},
		"one in twenty":                {20, failure.Hold, failure.OfDependency},
		"one in forty":                 {40, failure.Hold, failure.OfDependency},
		"one in four, the plain table": {4, failure.Document, failure.OfDependency},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := newTestLine(t, c.policy)
			for i := range 100 {
				*now = now.Add(time.Second)
				tries(l, fmt.Sprint(i), i%c.every == 0)
			}
			for range 50 { // others that fail again say nothing new
				l.Judge(Attempt{Order: "again", Began: *now, Earlier: 2}, failure.New(failure.Provider5xx, "503"))
				tries(l, "good", false)
			}
			for i := range 100 {
				*now = now.Add(time.Second)
				tries(l, fmt.Sprint(100+i), i%c.every == 0)
			}
			f := failure.New(failure.Provider5xx, "503")
			require.Equal(t, c.outcome, l.Judge(Attempt{Order: "x", Began: *now, Earlier: 3, Last: true}, f))
		})
	}
}

// A partial outage that becomes a whole one holds the line as soon as any other.
func TestAPartialOutageHidesNoOutage(t *testing.T) {
	l, now := newTestLine(t, failure.Hold)
	for i := range 200 {
		*now = now.Add(10 * time.Millisecond)
		charge(l, fmt.Sprint("good", i))
		fail(l, fmt.Sprint(i), failure.Provider5xx)
	}
	charge(l, "the last good one")
	for i := range 5 {
		require.Empty(t, held(l))
		*now = now.Add(10 * time.Millisecond)
		fail(l, fmt.Sprint("more", i), failure.Provider5xx)
	}
	require.Equal(t, failure.ProviderDown, held(l))
}

// A share of the requests fails for twenty minutes; nearly every order is charged.
func TestAlmostNobodyDiesInAPartialOutage(t *testing.T) {
	for _, share := range []float64{0.1, 0.2, 0.33, 0.5, 0.7, 0.85} {
		dead, all := 0, 0
		for _, every := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second} {
			for seed := range uint64(5) {
				m := newMarch(t, seed, share)
				n := min(2000, int(10*time.Minute/every))
				m.come(n, every)
				m.run(20 * time.Minute)
				m.share = 0
				m.run(2 * time.Hour)
				dead, all = dead+m.dead, all+n
			}
		}
		t.Logf("%.0f %%: %d of %d", 100*share, dead, all)
		require.LessOrEqual(t, float64(dead), 2e-4*float64(all), "%.0f %%", 100*share)
	}
}

// An order that always fails ends, alone or among others that fail by chance.
func TestAnOrderThatAlwaysFailsEnds(t *testing.T) {
	for _, share := range []float64{0, 0.1, 0.2, 0.4} {
		for _, bad := range []int{1, 3, 20} {
			m := newMarch(t, 1, share)
			m.add(bad, true)
			m.come(1200, 3*time.Second)
			m.run(3 * time.Hour)
			require.GreaterOrEqual(t, m.dead, bad, "%d that always fail, %.0f %% by chance", bad, 100*share)
			require.LessOrEqual(t, m.dead, bad+1)
		}
	}
}

// march plays orders on their way over the ladder, one after the other, at a provider that fails a share of the requests.
type march struct {
	t      *testing.T
	line   *Line
	now    *time.Time
	start  time.Time
	rnd    *rand.Rand
	share  float64
	orders queue
	dead   int
}

type marcher struct {
	id           string
	at           time.Time
	bad, tried   bool
	fails, waits int
}

func newMarch(t *testing.T, seed uint64, share float64) *march {
	l, now := newTestLine(t, failure.Hold)
	return &march{t: t, line: l, now: now, start: *now, rnd: rand.New(rand.NewPCG(seed, 7)), share: share}
}

func (m *march) add(n int, bad bool) {
	for i := range n {
		m.orders = append(m.orders, &marcher{id: fmt.Sprint(i, bad), bad: bad, at: m.start.Add(time.Duration(i) * 10 * time.Millisecond)})
	}
}

// come adds orders that come one after the other.
func (m *march) come(n int, every time.Duration) {
	for i := range n {
		m.orders = append(m.orders, &marcher{id: fmt.Sprint("good", i), at: m.start.Add(time.Duration(i) * every)})
	}
}

func (m *march) run(d time.Duration) {
	heap.Init(&m.orders)
	for len(m.orders) > 0 {
		o := m.orders[0]
		if o.at.Sub(m.start) > d {
			return
		}
		if o.at.After(*m.now) {
			*m.now = o.at
		}
		if held(m.line) != "" { // a probe
			*m.now = m.now.Add(500 * time.Millisecond)
		}
		if m.attempt(o) {
			heap.Fix(&m.orders, 0)
		} else {
			heap.Pop(&m.orders)
		}
	}
}

// queue has the order that is next first.
type queue []*marcher

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*marcher)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// attempt reports whether the order is tried again.
func (m *march) attempt(o *marcher) bool {
	tiers := []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}
	began := *m.now
	*m.now = began.Add(5 * time.Millisecond)
	a := Attempt{Order: o.id, Record: o.id, Began: began, First: !o.tried, Earlier: o.fails + o.waits, Last: o.fails == len(tiers)}
	o.tried = true
	if !o.bad && m.rnd.Float64() >= m.share {
		a.Answered = true
		m.line.Judge(a, nil)
		return false
	}
	switch fault := m.line.Judge(a, failure.New(failure.Provider5xx, "503")); fault {
	case failure.OfSystem:
		o.at = m.now.Add(100 * time.Millisecond)
	case failure.OfMoment:
		o.at = m.now.Add(tiers[2])
		o.waits++
	default:
		require.Equal(m.t, failure.OfDependency, fault)
		if o.fails++; o.fails > len(tiers) {
			m.dead++
			return false
		}
		o.at = m.now.Add(tiers[o.fails-1])
	}
	return true
}
