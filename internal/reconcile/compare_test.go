package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/failure"
)

func kinds(f Findings) map[Kind]int {
	n := map[Kind]int{}
	for _, d := range f.Listed {
		n[d.Kind]++
	}
	return n
}

func TestEven(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		w.charged()
	}
	r := w.compared(w.reconciler())
	require.Zero(t, r.Findings)
	require.Equal(t, []int{20, 20, 0}, []int{r.There, r.Here, r.LookedUp}, "nothing had to be asked for")
}

// Each way in which both sides can differ is found, once, with the charge and both sides' word.
func TestDifferences(t *testing.T) {
	w := newWorld(t)
	o, charge := w.charged()
	second := w.move(o)
	require.Equal(t, []Difference{{ChargedTwice, o.ID, second.ID, "149.90 EUR, one of 2 charges", "succeeded 149.90 EUR " + charge.ID}}, w.compared(w.reconciler()).Findings.Listed)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM charge_anomalies WHERE kind = 'second_charge' AND provider_charge_id = $1`, second.ID))
	w.compared(w.reconciler())
	require.Equal(t, 1, w.count(`SELECT count(*) FROM charge_anomalies`), "found again, kept once")

	for name, differ := range map[string]func(*world) Difference{
		"an order that was never heard of": func(w *world) Difference {
			o := w.order()
			return Difference{NotRecorded, o.ID, w.move(o).ID, "149.90 EUR", "never heard of"}
		},
		"declined here": func(w *world) Difference {
			o := w.order()
			w.settle(w.claim(o), billing.Settlement{State: billing.Declined, Reason: failure.Declined})
			return Difference{NotRecorded, o.ID, w.move(o).ID, "149.90 EUR", "declined 149.90 EUR "}
		},
		"waiting here, sure that no money moved": func(w *world) Difference {
			o := w.order()
			w.settle(w.claim(o), billing.Settlement{State: billing.RetryWait, Reason: failure.ProviderRateLimited})
			return Difference{NotRecorded, o.ID, w.move(o).ID, "149.90 EUR", "retry_wait 149.90 EUR "}
		},
		"in review": func(w *world) Difference {
			o := w.order()
			w.settle(w.claim(o), billing.Settlement{State: billing.Review, Unknown: true, Reason: failure.KeyReused})
			return Difference{NotRecorded, o.ID, w.move(o).ID, "149.90 EUR", "review 149.90 EUR "}
		},
		"unknown, and twice": func(w *world) Difference {
			o := w.undecided()
			w.move(o)
			return Difference{InReview, o.ID, w.move(o).ID, "2 charges, the first is ch_2", "review 149.90 EUR"}
		},
		"missing there": func(w *world) Difference {
			o := w.order()
			w.settle(w.claim(o), billing.Settlement{State: billing.Succeeded, ProviderChargeID: "ch_9"})
			return Difference{MissingThere, o.ID, "ch_9", "", "succeeded 149.90 EUR ch_9"}
		},
		"another charge": func(w *world) Difference {
			o := w.order()
			c := w.claim(o)
			id := w.move(o).ID
			w.settle(c, billing.Settlement{State: billing.Succeeded, ProviderChargeID: "ch_9"})
			return Difference{OtherCharge, o.ID, id, "149.90 EUR", "succeeded 149.90 EUR ch_9"}
		},
		"another amount": func(w *world) Difference {
			o := w.order()
			more := o
			more.Amount.Minor++
			c, id := w.claim(o), w.move(more).ID
			w.settle(c, billing.Settlement{State: billing.Succeeded, ProviderChargeID: id})
			return Difference{OtherAmount, o.ID, id, "149.91 EUR", "succeeded 149.90 EUR " + id}
		},
		"another currency": func(w *world) Difference {
			o := w.order()
			other := o
			other.Amount.Currency = "USD"
			c, id := w.claim(o), w.move(other).ID
			w.settle(c, billing.Settlement{State: billing.Succeeded, ProviderChargeID: id})
			return Difference{OtherAmount, o.ID, id, "149.90 USD", "succeeded 149.90 EUR " + id}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.charged()
			want := differ(w)
			require.Equal(t, Findings{Total: 1, Listed: []Difference{want}}, w.compared(w.reconciler()).Findings)
		})
	}
}

func TestAnEntryThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	p := provider{Provider: w.provider, list: func(context.Context, time.Time, time.Time, string, int) ([]billing.ListedCharge, string, error) {
		return []billing.ListedCharge{{ProviderCharge: billing.ProviderCharge{ID: "ch_7", CreatedAt: w.begun}, Problem: "the reference is not an order id"}}, "", nil
	}}
	require.Equal(t, []Difference{{Kind: Unreadable, ChargeID: "ch_7", There: "the reference is not an order id"}}, w.compared(w.reconcilerOf(p)).Findings.Listed)
}

// What is on its way at either end of the range is no difference.
func TestMargins(t *testing.T) {
	w := newWorld(t)
	before := w.order()
	claim := w.claim(before)
	charge := w.move(before) // made before the range, known in it
	begin := charge.CreatedAt.Add(time.Millisecond)
	after(t, begin)
	w.settle(claim, billing.Settlement{State: billing.Succeeded, ProviderChargeID: charge.ID})

	flying := w.order() // charged there, not settled here
	w.claim(flying)
	w.move(flying)
	lost := w.undecided() // the answer was lost
	w.move(lost)
	dead := w.order() // its process has died
	w.claim(dead)
	w.move(dead)
	w.exec(`UPDATE charges SET lease_until = now() - interval '1 second' WHERE order_id = $1`, dead.ID)
	q := w.all()
	q.From = begin
	w.charged() // after the range

	report, err := w.reconciler().Run(t.Context(), q)
	require.NoError(t, err)
	r := report.Range
	require.Zero(t, r.Findings)
	require.Equal(t, []int{3, 1, 2, 3}, []int{r.There, r.Busy, r.Resolved, r.LookedUp})
	for _, o := range []billing.Order{lost, dead} {
		require.Equal(t, billing.Succeeded, w.row(o).State)
	}
	require.Equal(t, billing.InFlight, w.row(flying).State)
}

func TestRangeEndsWhereChargesHaveSettled(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(func(c *Config) { c.Settled = time.Minute })
	report, err := r.Run(t.Context(), Request{Range: true, From: w.begun.Add(-time.Hour), To: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(-time.Minute), report.Range.To, 5*time.Second)
	_, err = r.Run(t.Context(), Request{Range: true, From: time.Now(), To: time.Now().Add(time.Hour)})
	require.ErrorContains(t, err, "empty")
}

// A provider whose look-ups lag behind does not prove that a charge is missing.
func TestNotFoundAndNotProven(t *testing.T) {
	w := newWorld(t, func(c *providersim.Config) { c.LookupLag = time.Hour })
	w.settle(w.claim(w.order()), billing.Settlement{State: billing.Succeeded, ProviderChargeID: "ch_9"})
	r := w.compared(w.reconciler())
	require.Zero(t, r.Findings)
	require.Equal(t, 1, r.Unproven)
}

// Orders that were taken over must have exactly one charge, whenever it was made: the second one here is outside the range
// (hazard H1).
func TestTakenOverOrdersAreLookedUpInFull(t *testing.T) {
	w := newWorld(t)
	o := w.order()
	w.claim(o)
	earlier := w.move(o)
	after(t, earlier.CreatedAt.Add(time.Millisecond))
	begin := earlier.CreatedAt.Add(time.Millisecond)
	w.exec(`UPDATE charges SET lease_until = now() - interval '1 second'`)
	taker := w.claim(o)
	w.settle(taker, billing.Settlement{State: billing.Succeeded, ProviderChargeID: w.move(o).ID})
	w.charged()
	q := w.all()
	q.From = begin

	report, err := w.reconciler(func(c *Config) { c.Sample = 0 }).Run(t.Context(), q)
	require.NoError(t, err)
	require.Zero(t, report.Range.Findings, "within the range all is well")
	require.Equal(t, []int{1, 0}, []int{report.Range.TakenOver, report.Range.Sampled})
	report, err = w.reconciler().Run(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 1}, []int{report.Range.TakenOver, report.Range.Sampled, report.Range.LookedUp})
	require.Equal(t, map[Kind]int{ChargedTwice: 1}, kinds(report.Range.Findings))
	require.Equal(t, earlier.ID, report.Range.Findings.Listed[0].ChargeID)
}

// Many pages, of which some cannot be had: the run is taken up where it stood, and finds what it would have found in one go.
func TestResumed(t *testing.T) {
	w := newWorld(t)
	double, _ := w.charged()
	w.move(double)
	const orders = 250
	for range orders - 1 {
		w.charged()
	}
	last := w.order()
	w.move(last)
	const page = 20
	down := 3 // this page and those after it
	p := provider{Provider: w.provider}
	p.list = func(ctx context.Context, from, to time.Time, cursor string, limit int) ([]billing.ListedCharge, string, error) {
		all, _, err := w.provider.List(ctx, from, to, "", limit)
		start := 0
		if cursor != "" {
			_, err = fmt.Sscan(cursor, &start)
		}
		if err != nil || start >= down*page {
			return nil, "", failure.New(failure.ProviderUnauthorized, "not any more")
		}
		end := min(start+page, len(all))
		if end == len(all) {
			return all[start:], "", nil
		}
		return all[start:end], fmt.Sprint(end), nil
	}
	var seen []int
	r := w.reconcilerOf(p, func(c *Config) { c.Progress = func(r Report) { seen = append(seen, r.Range.There) } })
	q := w.all()
	report, err := r.Run(t.Context(), q)
	require.Error(t, err)
	require.Equal(t, 3*page, report.Range.There)
	require.Equal(t, []int{page, 2 * page, 3 * page}, seen)
	require.Equal(t, 1, report.Range.Findings.Total, "what was found so far is told")

	down = 1000
	r = w.reconcilerOf(p)
	report, err = r.Run(t.Context(), Request{Range: true, Resume: true})
	require.NoError(t, err)
	require.Equal(t, q.To, report.Range.To.Local())
	require.Equal(t, map[Kind]int{ChargedTwice: 1, NotRecorded: 1}, kinds(report.Range.Findings))
	require.Equal(t, orders, report.Range.Here)
	require.InDelta(t, orders+2, report.Range.There, page, "those of one millisecond at the seam may be left out of the count")

	_, err = r.Run(t.Context(), Request{Range: true, Resume: true})
	require.ErrorIs(t, err, ErrNothingToResume)
}

func TestNothingToResume(t *testing.T) {
	w := newWorld(t)
	_, err := w.reconciler().Run(t.Context(), Request{Range: true, Resume: true})
	require.ErrorIs(t, err, ErrNothingToResume)
}

// A list that breaks the contract ends the run: what it would prove is wrong.
func TestListsThatBreakTheContract(t *testing.T) {
	at := time.Now().Add(-time.Minute)
	one := func(when time.Time) []billing.ListedCharge {
		return []billing.ListedCharge{{ProviderCharge: billing.ProviderCharge{ID: "ch_1", Reference: uuid.New(), CreatedAt: when}}}
	}
	for name, list := range map[string]func(cursor string) ([]billing.ListedCharge, string){
		"empty and not at its end": func(string) ([]billing.ListedCharge, string) { return nil, "more" },
		"the same cursor again":    func(string) ([]billing.ListedCharge, string) { return one(at), "more" },
		"back in time": func(string) ([]billing.ListedCharge, string) {
			return append(one(at), one(at.Add(-time.Second))...), ""
		},
	} {
		w := newWorld(t)
		p := provider{Provider: w.provider, list: func(_ context.Context, _, _ time.Time, cursor string, _ int) ([]billing.ListedCharge, string, error) {
			page, next := list(cursor)
			return page, next, nil
		}}
		_, err := w.reconcilerOf(p).Run(t.Context(), w.all())
		require.ErrorContains(t, err, "list of charges", name)
	}
}

func TestRecentForgetsTheOldest(t *testing.T) {
	var r recent
	first, second := uuid.New(), uuid.New()
	r.add(first)
	r.add(second)
	for range remembered - 2 {
		r.add(second)
	}
	require.True(t, r.has(first))
	r.add(second)
	require.False(t, r.has(first))
	require.True(t, r.has(second), "it stands there more than once")
	require.Len(t, r.ring, remembered)
	require.Len(t, r.set, 1)
}

func TestFindingsAreBounded(t *testing.T) {
	var f Findings
	for range maxListed + 5 {
		f.add(Difference{Kind: NotRecorded, OrderID: uuid.New()})
	}
	f.add(f.Listed[0])
	require.Equal(t, maxListed+5, f.Total)
	require.Len(t, f.Listed, maxListed)
}

func TestNewChecksItsSettings(t *testing.T) {
	w := newWorld(t)
	good := w.reconciler().cfg
	for _, change := range []func(*Config){
		func(c *Config) { c.Settled = 0 }, func(c *Config) { c.Lookups = 0 }, func(c *Config) { c.Sample = -1 },
		func(c *Config) { c.Clock = nil }, func(c *Config) { c.Log = nil },
	} {
		cfg := good
		change(&cfg)
		_, err := New(cfg, w.store, w.db.Pool, w.provider)
		require.Error(t, err)
	}
}
