package limiter

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// market is a provider with a rate limit, and workers that always have an order. Time is simulated.
type market struct {
	l       *Limiter
	refuses func(now time.Time) bool // at arrival
	low     time.Duration            // a charge takes low to high
	high    time.Duration

	mu             sync.Mutex
	rnd            *rand.Rand
	taken, refused atomic.Int64
}

// claim is what claim and settlement take of a place.
const claim = time.Millisecond

func newMarket(low, high time.Duration, refuses func(time.Time) bool) *market {
	return &market{l: New(256, time.Now), refuses: refuses, low: low, high: high, rnd: rand.New(rand.NewPCG(1, 2))}
}

// run lets them work for a while and tells charges a second and the share of refusals.
func (m *market) run(t *testing.T, d time.Duration) (perSecond, share float64) {
	m.taken.Store(0)
	m.refused.Store(0)
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for range 300 {
		all.Go(func() {
			for time.Now().Before(end) {
				m.one(t)
			}
		})
	}
	all.Wait()
	perSecond = float64(m.taken.Load()) / time.Since(end.Add(-d)).Seconds()
	return perSecond, float64(m.refused.Load()) / float64(max(1, m.refused.Load()+m.taken.Load()))
}

func (m *market) one(t *testing.T) {
	p, err := m.l.Enter(t.Context())
	require.NoError(t, err)
	m.mu.Lock()
	no := m.refuses(time.Now())
	wait := m.low + time.Duration(m.rnd.Int64N(int64(m.high-m.low)+1))
	m.mu.Unlock()
	if no {
		<-time.After(min(wait, 2*time.Millisecond) + claim) // a refusal is no work
		m.refused.Add(1)
		m.l.Leave(p, Refused)
		return
	}
	<-time.After(wait + claim)
	m.taken.Add(1)
	m.l.Leave(p, Taken)
}

// bucket takes so many a second and saves up a tenth of a second of it.
func bucket(rate float64) func(time.Time) bool {
	full, last := 0.0, time.Time{}
	return func(now time.Time) bool {
		full, last = min(max(1, rate/10), full+rate*now.Sub(last).Seconds()), now
		if full < 1 {
			return true
		}
		full--
		return false
	}
}

// quota takes so many in each second of the clock.
func quota(rate int) func(time.Time) bool {
	n, second := 0, int64(0)
	return func(now time.Time) bool {
		if now.Unix() != second {
			n, second = 0, now.Unix()
		}
		n++
		return n > rate
	}
}

func some(share float64) func(time.Time) bool {
	rnd := rand.New(rand.NewPCG(3, 4))
	return func(time.Time) bool { return rnd.Float64() < share }
}

var (
	usual   = [2]time.Duration{20 * time.Millisecond, 60 * time.Millisecond}
	instant = [2]time.Duration{}
	slow    = [2]time.Duration{200 * time.Millisecond, 2 * time.Second}
)

// Refusals that are not for our rate cost no more than themselves: each is one request more (hazard H35). That holds for
// one in a hundred, and for one sick node of three.
func TestScatteredRefusalsAreNoLimit(t *testing.T) {
	for _, latency := range [][2]time.Duration{usual, slow} {
		for _, share := range []float64{0.01, 0.03, 0.1, 0.33} {
			synctest.Test(t, func(t *testing.T) {
				m := newMarket(latency[0], latency[1], some(0))
				m.run(t, 5*time.Second)
				free, _ := m.run(t, 20*time.Second)
				m = newMarket(latency[0], latency[1], some(share))
				m.run(t, 5*time.Second)
				got, _ := m.run(t, 20*time.Second)
				require.Greater(t, got, 0.9*free, "%v of %v", share, latency)
			})
		}
	}
}

// A provider that takes so many a second is used up, with few requests in vain.
func TestARateIsFound(t *testing.T) {
	for _, latency := range [][2]time.Duration{usual, instant} {
		for _, rate := range []float64{50, 500, 2000} {
			synctest.Test(t, func(t *testing.T) {
				m := newMarket(latency[0], latency[1], bucket(rate))
				m.run(t, 5*time.Second)
				require.Positive(t, m.l.Limit().PerSecond)
				got, share := m.run(t, 20*time.Second)
				require.Greater(t, got, 0.9*rate, "%v a second, %v", rate, latency)
				require.Less(t, share, 0.1, "%v a second, %v", rate, latency)
			})
		}
	}
}

// From the start on, too: not all begin at once before the provider was heard.
func TestFewAreRefusedAtTheStart(t *testing.T) {
	for _, rate := range []float64{500, 2000} {
		synctest.Test(t, func(t *testing.T) {
			got, share := newMarket(usual[0], usual[1], bucket(rate)).run(t, 20*time.Second)
			require.Greater(t, got, 0.9*rate)
			require.Less(t, share, 0.1)
		})
	}
}

// A provider that counts by the second of the clock refuses everything at the end of each. That must not look like an
// outage that is over every second.
func TestAQuotaOfEachSecondIsUsed(t *testing.T) {
	for _, rate := range []int{50, 500, 2000} {
		synctest.Test(t, func(t *testing.T) {
			m := newMarket(usual[0], usual[1], quota(rate))
			m.run(t, 10*time.Second)
			got, share := m.run(t, 20*time.Second)
			require.Greater(t, got, 0.9*float64(rate), "%d a second", rate)
			require.Less(t, share, 0.35, "%d a second", rate)
		})
	}
}

// When everybody is refused, one at a time asks, ten times a second. Within seconds of the cure all places are in use.
func TestEverybodyIsRefusedAndThenNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(usual[0], usual[1], some(0))
		m.run(t, 5*time.Second)
		free, _ := m.run(t, 5*time.Second)
		require.Equal(t, Limit{Inside: 256}, m.l.Limit())

		m.refuses = some(1)
		m.run(t, 5*time.Second)
		require.Equal(t, Limit{Inside: 1, PerSecond: slowestTry}, m.l.Limit())
		began := time.Now()
		m.run(t, time.Minute)
		require.LessOrEqual(t, float64(m.refused.Load()), 1.1*slowestTry*time.Since(began).Seconds())

		m.refuses = some(0)
		m.run(t, 4*time.Second)
		got, _ := m.run(t, 5*time.Second)
		require.Greater(t, got, 0.9*free)
		require.Equal(t, Limit{Inside: 256}, m.l.Limit())
	})
}

func TestALiftedRateIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(usual[0], usual[1], bucket(50))
		m.run(t, 10*time.Second)
		m.refuses = bucket(2000)
		m.run(t, 4*time.Second)
		got, share := m.run(t, 20*time.Second)
		require.Greater(t, got, 1800.0)
		require.Less(t, share, 0.1)
		m.refuses = bucket(50)
		m.run(t, 5*time.Second)
		got, share = m.run(t, 20*time.Second)
		require.Greater(t, got, 45.0)
		require.Less(t, share, 0.1)
	})
}

// With little to do, a refusal or two say nothing about what the provider would take.
func TestALullIsNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(usual[0], usual[1], some(0.2))
		for range 300 {
			m.one(t)
			<-time.After(time.Second)
		}
		require.Equal(t, Limit{Inside: 256}, m.l.Limit())

		m.refuses = some(1)
		m.run(t, 5*time.Second)
		require.Equal(t, 1, m.l.Limit().Inside)
		<-time.After(restAfter + time.Second)
		require.Equal(t, Limit{Inside: 256}, m.l.Limit(), "nobody was refused for long")
	})
}

// What was not sent, or had no answer, takes nothing of the rate: records that were charged before are not slowed down.
func TestWhatIsNotSentIsNotSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(usual[0], usual[1], bucket(50))
		m.run(t, 5*time.Second)
		began := time.Now()
		for range 1000 {
			p, err := m.l.Enter(t.Context())
			require.NoError(t, err)
			m.l.Leave(p, Silent)
		}
		require.Less(t, time.Since(began), time.Second)
	})
}
