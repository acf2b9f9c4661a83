package verdict

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/demo/loadgen"
)

// givenUp is a world with one order more that failed four times, at these seconds after noon.
func givenUp(reason string, seconds ...float64) *world {
	w := newWorld()
	r := w.send(uuid.New(), "40.00", loadgen.Want{Outcome: loadgen.Charged, Amount: euros(4000)})
	for n, s := range seconds[:3] {
		at := noon.Add(time.Duration(s * float64(time.Second)))
		w.Tiers[n] = append(w.Tiers[n], follow(r, "tier", n+1, at, Header{"x-not-before", "0"}))
	}
	w.die(r, "exhausted", reason, 4)
	w.Dead[len(w.Dead)-1].At = noon.Add(time.Duration(seconds[3] * float64(time.Second)))
	w.Books.Taken++
	return w
}

func problems(w *world) string {
	text := ""
	for _, p := range Of(w.Case).Problems {
		text += p.Text + "\n"
	}
	return text
}

// The first failures of an outage may be counted: nobody can know yet. A second one of the same order cannot be.
func TestAnOutageCostsNoOrderTwoAttempts(t *testing.T) {
	tenToTwenty := Outage{Name: "provider 408", From: noon.Add(10 * time.Second), To: noon.Add(20 * time.Second)}
	for _, c := range []struct {
		name   string
		outage Outage
		failed []float64
		says   string
	}{
		{"none of it", tenToTwenty, []float64{0, 1, 3, 7}, ""},
		{"one of it", tenToTwenty, []float64{0, 2, 5, 11}, ""},
		{"two of it", tenToTwenty, []float64{0, 2, 11, 15}, "died of an outage (provider 408): 2 of its failures"},
		{"all of it", tenToTwenty, []float64{10.1, 11.2, 13.3, 17.4}, "4 of its failures"},
		{"met as it ended", tenToTwenty, []float64{0, 2, 19, 21}, "2 of its failures"},
		{"a sick node", Outage{From: noon, To: noon.Add(time.Minute), Partly: true}, []float64{0, 2, 11, 15}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := givenUp("provider_5xx", c.failed...)
			w.Outages = []Outage{c.outage}
			if c.says == "" {
				require.Empty(t, problems(w))
				return
			}
			require.Contains(t, problems(w), c.says)
			require.Equal(t, 1, Of(w.Case).OfOutage)
		})
	}
}

// An attempt that asked for money did not fail for a look-up.
func TestALookUpThatProvesNothingIsOfThoseThatAskNothing(t *testing.T) {
	w := givenUp("provider_reset", 0, 2, 11, 15)
	w.Outages = []Outage{{Name: "unsure", From: noon.Add(10 * time.Second), To: noon.Add(20 * time.Second), LookUps: true}}
	require.Contains(t, problems(w), "2 of its failures")
	id := uuid.MustParse(string(w.Dead[len(w.Dead)-1].Key))
	w.ask(id, noon.Add(10900*time.Millisecond), 0)
	w.ask(id, noon.Add(14900*time.Millisecond), 0)
	require.Empty(t, problems(w))
}

// A copy of a retry record is not another failure.
func TestACopyIsNoFailure(t *testing.T) {
	w := givenUp("provider_5xx", 0, 1, 3, 12)
	w.Outages = []Outage{{From: noon.Add(10 * time.Second), To: noon.Add(20 * time.Second)}}
	again := w.Tiers[2][0]
	again.At = noon.Add(14 * time.Second)
	w.Tiers[2] = append(w.Tiers[2], again)
	require.Empty(t, problems(w))
}

func TestNobodyDiesOfARateLimit(t *testing.T) {
	require.Contains(t, problems(givenUp("provider_rate_limited", 0, 1, 3, 7)), "dead for a rate limit")
}

// What refuses everyone may refuse a few before that is noticed; a platform's page is no refusal at all.
func TestRefusalsOfEveryone(t *testing.T) {
	w := newWorld() // one order is declined, at noon
	around := Outage{Name: "provider 402", From: noon.Add(-time.Second), To: noon.Add(time.Second), Refuses: true}
	w.Outages, w.FloodAllowed = []Outage{around}, 1
	require.Empty(t, problems(w))
	require.Equal(t, 1, Of(w.Case).Flooded)
	w.FloodAllowed = 0
	require.Contains(t, problems(w), "1 orders are refused for good because everyone was")
	w.Outages[0].From = noon.Add(time.Millisecond)
	require.Empty(t, problems(w), "it was declined before")
	w.Outages = []Outage{{From: noon.Add(-time.Second), To: noon.Add(time.Second), Page: true}}
	require.Contains(t, problems(w), "is dead for declined")
}

// A refusal is the provider's word about an order, unless it refuses everyone (torture, seed 70066).
func TestARefusalIsOfNoOtherOutage(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		w := givenUp("refused_after_unknown", 0, 1, 3, 11)
		for n := range w.Tiers {
			for i := range w.Tiers[n] {
				w.Tiers[n][i].Headers = append(w.Tiers[n][i].Headers, Header{"x-error-reason", "refused_after_unknown"})
			}
		}
		w.Outages = []Outage{{Name: "provider", From: noon, To: noon.Add(20 * time.Second), Refuses: refuses}}
		require.Equal(t, refuses, Of(w.Case).OfOutage > 0)
	}
}
