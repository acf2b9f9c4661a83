package hold

import (
	"fmt"
	"math/rand/v2"
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

// Few orders are left, and most requests fail: each answer ends a hold, and the failures that follow it must not add up to
// the end of an order.
func TestAFewOrdersInAPartialOutage(t *testing.T) {
	dead, all := 0, 0
	for _, orders := range []int{2, 3, 6, 8, 12, 20, 50, 200} {
		for _, share := range []float64{0.1, 0.2, 0.33, 0.5, 0.7, 0.85, 0.95} {
			for seed := range uint64(20) {
				m := newMarch(t, seed, share)
				m.add(orders, false)
				m.run(10 * time.Minute)
				dead, all = dead+m.dead, all+orders
			}
		}
	}
	t.Logf("%d of %d", dead, all)
	require.LessOrEqual(t, dead, 4, "of %d", all)
}

// Whatever others meet, an order that fails alone ends: it does not wait for ever.
func TestAnOrderThatFailsAloneEnds(t *testing.T) {
	for bad := 1; bad <= partialLeast; bad++ {
		for _, every := range []time.Duration{time.Second, 4 * time.Second, time.Minute} {
			m := newMarch(t, 1, 0)
			m.add(bad, true)
			for at := time.Duration(0); at < time.Hour; at += every {
				m.orders = append(m.orders, &marcher{id: fmt.Sprint("good", at), at: m.start.Add(at)})
			}
			m.run(time.Hour)
			require.Equal(t, bad, m.dead, "%d, and a good one every %s", bad, every)
		}
	}
}

// Nor among many that fail by chance; but an outage that always meets the same orders costs none of them.
func TestAnOrderThatAlwaysFailsEndsAmongOthersThatFail(t *testing.T) {
	for _, share := range []float64{0.1, 0.2, 0.4} {
		for bad, want := range map[int]int{1: 1, 3: 3, 20: 0} {
			m := newMarch(t, 1, share)
			m.add(bad, true)
			for at := time.Duration(0); at < 2*time.Hour; at += 3 * time.Second {
				m.orders = append(m.orders, &marcher{id: fmt.Sprint("good", at), at: m.start.Add(at)})
			}
			m.run(2 * time.Hour)
			require.Equal(t, want, m.dead, "%d that always fail, %.0f %% by chance", bad, 100*share)
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
	orders []*marcher
	dead   int
}

type marcher struct {
	id           string
	at           time.Time
	bad          bool
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

func (m *march) run(d time.Duration) {
	for len(m.orders) > 0 {
		next := 0
		for i, o := range m.orders {
			if o.at.Before(m.orders[next].at) {
				next = i
			}
		}
		o := m.orders[next]
		if o.at.Sub(m.start) > d {
			return
		}
		if o.at.After(*m.now) {
			*m.now = o.at
		}
		if held(m.line) != "" { // a probe
			*m.now = m.now.Add(500 * time.Millisecond)
		}
		if !m.attempt(o) {
			m.orders = append(m.orders[:next], m.orders[next+1:]...)
		}
	}
}

// attempt reports whether the order is tried again.
func (m *march) attempt(o *marcher) bool {
	tiers := []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}
	began := *m.now
	*m.now = began.Add(20 * time.Millisecond)
	if !o.bad && m.rnd.Float64() >= m.share {
		m.line.Judge(Attempt{Order: o.id, Record: o.id, Began: began, Answered: true}, nil)
		return false
	}
	switch fault := m.line.Judge(Attempt{Order: o.id, Record: o.id, Began: began}, failure.New(failure.Provider5xx, "503")); fault {
	case failure.OfSystem:
		o.at = m.now.Add(100 * time.Millisecond)
	case failure.OfMoment:
		o.at = m.now.Add(tiers[min(o.waits/5, 2)])
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
