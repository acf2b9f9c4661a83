package hold

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// floodLine withholds when ten die in a minute and at least half of all.
func floodLine(policy failure.Policy) (*Line, *time.Time) { return limitedLine(policy, 10) }

// sharedLine withholds when count die in a minute, at all instances.
func sharedLine(count int) (*Line, *time.Time) { return limitedLine(failure.Hold, count) }

func limitedLine(policy failure.Policy, count int) (*Line, *time.Time) {
	now := time.Unix(1_800_000_000, 0)
	return NewLine(Config{
		Policy: policy, BreakerRun: 5, BreakerPair: 5 * time.Second, FloodCount: count, FloodRatio: 0.5, ProbeMin: time.Hour, ProbeMax: time.Hour,
		Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}), &now
}

// dies asks for the verdict on a message, as the router and the service do.
func dies(l *Line, record string, r failure.Reason) bool {
	f := failure.New(r, "test")
	l.Verdict(record, f)
	l.Judge(Attempt{Record: record, Order: record, Began: l.cfg.Clock()}, f)
	return f.Verdict == failure.Dies
}

// pass lets time pass as it does in a service: somebody looks once a second.
func pass(l *Line, now *time.Time, d time.Duration) {
	for end := now.Add(d); now.Before(end); {
		*now = now.Add(time.Second)
		l.Held()
	}
}

func TestAFloodWithholdsTheDeadAndNobodyElse(t *testing.T) { // H25
	l, now := floodLine(failure.Hold)
	for i := range 9 {
		require.True(t, dies(l, fmt.Sprint(i), failure.NotJSON))
	}
	for i := range 2991 {
		require.False(t, dies(l, fmt.Sprint("bad", i), failure.NotJSON))
	}
	require.Equal(t, failure.DeadLetterFlood, held(l), "readiness tells")
	on, waiting := l.Flood()
	require.True(t, on)
	require.Equal(t, map[failure.Reason]int{failure.NotJSON: 2991}, waiting)

	leave, err := l.Enter(t.Context())
	require.NoError(t, err, "good orders go on")
	leave()
	charge(l, "good")

	*now = now.Add(time.Hour)
	require.False(t, dies(l, "bad0", failure.NotJSON), "the process was frozen for an hour")
	for range 100 {
		*now = now.Add(time.Second)
		for i := range 2991 {
			l.MayTry(fmt.Sprint("bad", i))
		}
	}
	require.False(t, dies(l, "bad0", failure.NotJSON), "time alone lets nobody go")

	l.Accept(failure.NotJSON, 2)
	require.True(t, l.MayTry("bad1"))
	require.True(t, dies(l, "bad1", failure.NotJSON))
	require.True(t, dies(l, "bad2", failure.Declined), "the flood is made of something else")
	require.True(t, dies(l, "bad3", failure.NotJSON))
	require.False(t, dies(l, "bad4", failure.NotJSON), "nor a third one")
}

// A restart must change nothing: the flood goes on, nobody more dies.
func TestAFloodOutlivesARestart(t *testing.T) { // H25
	l, now := floodLine(failure.Hold)
	l.Flooded()
	for i := range 9 {
		require.False(t, dies(l, fmt.Sprint(i), failure.NotJSON))
	}
	pass(l, now, floodLasts)
	require.Empty(t, held(l), "nine in a minute are no flood")
	require.True(t, l.MayTry("0"))
	require.True(t, dies(l, "0", failure.NotJSON))
}

// A process that is killed before its flood is counted leaves dead letters; the next one counts them (attack: 180 orders of
// four restarts).
func TestTheDeadOfTheProcessBeforeCount(t *testing.T) {
	l, _ := floodLine(failure.Hold)
	l.Died(7)
	require.True(t, dies(l, "8", failure.ProviderBadRequest))
	require.True(t, dies(l, "9", failure.ProviderBadRequest))
	require.False(t, dies(l, "10", failure.ProviderBadRequest))
	l, _ = floodLine(failure.Hold)
	l.Died(1000)
	require.Empty(t, held(l), "they may be few among many")
	require.False(t, dies(l, "one more", failure.NotJSON))
	l, _ = floodLine(failure.Document)
	l.Died(1000)
	require.True(t, dies(l, "a", failure.NotJSON))
}

// All instances that work together let no more die in a minute than the limit says, however the messages are spread; one
// that leaves gives its share to the others only after a minute (attack: three instances let three times as many die).
func TestInstancesShareTheLimit(t *testing.T) {
	for _, instances := range []int{1, 2, 3, 4, 5, 6, 10, 40} {
		l, now := sharedLine(50)
		l.Among(instances)
		for i := range 1000 {
			charge(l, fmt.Sprint("good", i))
		}
		died := refuseAll(l, "a")
		require.Equal(t, max((50+instances-1)/instances, leastShare)-1, died, instances)
		if instances <= 5 {
			require.Less(t, instances*died, 50)
		}
		pass(l, now, 10*time.Second)
		l.Among(1)
		require.Zero(t, refuseAll(l, "b"), "those that left have let their share die a moment ago")
	}
}

// A quiet minute later an instance that is alone has the whole limit, and none loses what it has counted when others come.
func TestTheShareFollowsTheInstances(t *testing.T) {
	l, now := sharedLine(50)
	l.Among(3)
	pass(l, now, countedFor)
	l.Among(1)
	require.Equal(t, 49, refuseAll(l, "alone"))

	l, _ = sharedLine(50)
	for i := range 80 {
		charge(l, fmt.Sprint("good", i))
	}
	for i := range 16 {
		require.True(t, dies(l, fmt.Sprint(i), failure.ProviderBadRequest))
	}
	l.Among(3)
	require.Zero(t, refuseAll(l, "shared"))
	l.Among(0)
	plain, _ := floodLine(failure.Document)
	plain.Among(3)
	require.Equal(t, 1000, refuseAll(plain, "the document's policy knows no flood"))
}

// Where one message in ten dies for ever, as many instances as one likes see no flood in it.
func TestASmallShareIsNoFlood(t *testing.T) {
	l, now := sharedLine(50)
	l.Among(100)
	for i := range 10_000 {
		*now = now.Add(10 * time.Millisecond)
		if i%10 > 0 {
			charge(l, fmt.Sprint(i))
			continue
		}
		require.True(t, dies(l, fmt.Sprint(i), failure.Declined), i)
	}
}

// refuseAll lets the provider refuse a thousand orders, and tells how many died of it.
func refuseAll(l *Line, name string) (died int) {
	for i := range 1000 {
		if dies(l, fmt.Sprint(name, i), failure.ProviderBadRequest) {
			died++
		}
	}
	return died
}

// The provider refuses everyone, and is cured: all that waited are charged.
func TestACureIsFoundByOneOfThoseThatWait(t *testing.T) { // H26
	l, now := floodLine(failure.Hold)
	for i := range 100 {
		dies(l, fmt.Sprint(i), failure.ProviderBadRequest)
	}
	pass(l, now, time.Second)
	may := 0
	for i := 9; i < 100; i++ {
		if l.MayTry(fmt.Sprint(i)) {
			may++
		}
	}
	require.Equal(t, 1, may, "one of them probes")
	require.True(t, l.MayTry("new"))
	charge(l, "new")
	require.False(t, l.MayTry("50"), "a new order that is charged says nothing about those that were refused")
	charge(l, "9")
	for i := 10; i < 100; i++ {
		require.True(t, l.MayTry(fmt.Sprint(i)), i)
		charge(l, fmt.Sprint(i))
	}
	_, waiting := l.Flood()
	require.Empty(t, waiting)
}

// While the line is held or paused nothing is handled, so that a minute without dead letters proves nothing.
func TestAHoldStopsTheFloodsTime(t *testing.T) {
	for name, stop := range map[string][2]func(*Line){
		"held":   {func(l *Line) { fail(l, "x", failure.DatabaseDown) }, func(l *Line) { charge(l, "y") }},
		"paused": {func(l *Line) { l.Pause(true) }, func(l *Line) { l.Pause(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := floodLine(failure.Hold)
			for i := range 12 {
				dies(l, fmt.Sprint(i), failure.NotJSON)
			}
			stop[0](l)
			pass(l, now, time.Hour)
			stop[1](l)
			require.Equal(t, failure.DeadLetterFlood, held(l))
			require.False(t, dies(l, "9", failure.NotJSON))
			on, waiting := l.Flood()
			require.True(t, on)
			require.Equal(t, 3, waiting[failure.NotJSON])
		})
	}
}

// Thousands of good orders came before: the outage is noticed by those that are refused now, not by their share of a minute.
func TestAFloodIsNoticedAtAnyRate(t *testing.T) { // H26
	l, _ := floodLine(failure.Hold)
	for i := range 10_000 {
		charge(l, fmt.Sprint("good", i))
	}
	died := 0
	for i := range 1000 {
		if dies(l, fmt.Sprint(i), failure.ProviderBadRequest) {
			died++
		}
	}
	require.Equal(t, 9, died)
}

func TestWhatIsNoFlood(t *testing.T) {
	t.Run("as many good ones", func(t *testing.T) {
		l, _ := floodLine(failure.Hold)
		for i := range 100 {
			charge(l, "good")
			charge(l, "good too")
			require.True(t, dies(l, fmt.Sprint(i), failure.NotJSON))
		}
	})
	t.Run("slow ones are for the alert", func(t *testing.T) {
		l, now := floodLine(failure.Hold)
		for i := range 100 {
			pass(l, now, 7*time.Second)
			require.True(t, dies(l, fmt.Sprint(i), failure.NotJSON))
		}
	})
	t.Run("not under the document's policy", func(t *testing.T) {
		l, _ := floodLine(failure.Document)
		for i := range 100 {
			require.True(t, dies(l, fmt.Sprint(i), failure.NotJSON))
		}
		l.Flooded()
		require.Empty(t, held(l))
	})
}

// What a person let go is given back when its messages went with their partition, or cannot be handled (torture, seed
// 1796099181542).
func TestUnaccept(t *testing.T) {
	l, now := floodLine(failure.Hold)
	for i := range 30 {
		dies(l, fmt.Sprint(i), failure.NotJSON)
	}
	l.Accept(failure.NotJSON, 21)
	require.Empty(t, l.Unaccept(), "all of them wait")
	require.True(t, dies(l, "10", failure.NotJSON))
	charge(l, "11")
	require.Equal(t, map[failure.Reason]int{failure.NotJSON: 1}, l.Unaccept())

	for range 10 {
		*now = now.Add(time.Second)
		for i := 12; i < 17; i++ {
			l.MayTry(fmt.Sprint(i))
		}
	}
	_, waiting := l.Flood()
	require.Equal(t, 5, waiting[failure.NotJSON])
	require.Equal(t, map[failure.Reason]int{failure.NotJSON: 14}, l.Unaccept(), "the others went with their partition")

	l.Pause(true)
	require.Equal(t, map[failure.Reason]int{failure.NotJSON: 5}, l.Unaccept(), "no message can be handled")
	l.Pause(false)
	require.False(t, dies(l, "12", failure.NotJSON))
}

// Messages that went with their partition are not counted for ever.
func TestWhoAsksNoMoreIsForgotten(t *testing.T) {
	l, now := floodLine(failure.Hold)
	for i := range 30 {
		dies(l, fmt.Sprint(i), failure.NotJSON)
	}
	for range 5 {
		*now = now.Add(10 * time.Second)
		l.MayTry("29")
	}
	dies(l, "29", failure.NotJSON)
	_, waiting := l.Flood()
	require.Equal(t, 1, waiting[failure.NotJSON])
	pass(l, now, floodLasts)
	require.Empty(t, held(l))
}

// 600 undecodable records, let go by a person. One message in twenty is declined as every day, which
// alone is no flood: it must not keep the other one alive.
func TestTheDeclinesOfEveryDayDoNotKeepAFloodAlive(t *testing.T) {
	l, now := sharedLine(50) // the defaults: 50, 0.5
	var waiting []string
	try := func(record string, r failure.Reason) {
		if l.MayTry(record) && !dies(l, record, r) && !slices.Contains(waiting, record) {
			waiting = append(waiting, record)
		}
	}
	for i := range 600 {
		try(fmt.Sprint("bad", i), failure.NotJSON)
	}
	require.Equal(t, failure.DeadLetterFlood, held(l))
	l.Accept(failure.NotJSON, 600)
	for _, record := range waiting {
		require.True(t, l.MayTry(record) && dies(l, record, failure.NotJSON))
	}
	waiting = nil

	for s := range 600 {
		*now = now.Add(time.Second)
		for i := range 50 {
			record := fmt.Sprint(s, "/", i)
			if i%20 == 0 {
				try(record, failure.Declined)
			} else if l.MayTry(record) {
				charge(l, record)
			}
		}
		again := waiting
		waiting = nil
		for _, record := range again {
			if !l.MayTry(record) || !dies(l, record, failure.Declined) {
				waiting = append(waiting, record)
			}
		}
	}
	require.Empty(t, held(l), "ten minutes after the last undecodable record %d declined orders wait", len(waiting))
}

// What the flood is made of waits for a person, however many good orders pass; everything else dies as on every day.
func TestAFloodIsOfItsReasons(t *testing.T) {
	for name, reasons := range map[string][]failure.Reason{
		"one":  {failure.NotJSON},
		"two":  {failure.NotJSON, failure.MissingField},
		"many": {failure.NotJSON, failure.MissingField, failure.WrongShape, failure.InvalidUUID, failure.InvalidAmount, failure.InvalidUTF8},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := sharedLine(50)
			l.Flooded() // by an instance that was killed
			for i := range 300 {
				require.False(t, dies(l, fmt.Sprint("bad", i), reasons[i%len(reasons)]))
			}
			for s := range 3600 {
				*now = now.Add(time.Second)
				charge(l, fmt.Sprint("good", s))
				if s%20 == 0 {
					require.True(t, dies(l, fmt.Sprint("declined", s), failure.Declined))
				}
				for i := range 300 {
					if l.MayTry(fmt.Sprint("bad", i)) {
						require.False(t, dies(l, fmt.Sprint("bad", i), reasons[i%len(reasons)]))
					}
				}
			}
			require.Equal(t, failure.DeadLetterFlood, held(l))
		})
	}
}
