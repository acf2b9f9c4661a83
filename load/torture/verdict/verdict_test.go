package verdict

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/load/rig"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world is a round in which all went well: a good order, its repetition, a conflict, a declined one, one that waited, one
// that is no order. Tests break it.
type world struct {
	Case
	good, declined, waited uuid.UUID
}

func newWorld() *world {
	w := &world{good: uuid.New(), declined: uuid.New(), waited: uuid.New()}
	w.Tiers = make([][]Record, 3)
	w.Accounts = map[string]Account{}
	w.Redelivery = noon.Add(time.Hour)
	first := w.send(w.good, "10.00", loadgen.Want{Outcome: loadgen.Charged, Amount: euros(1000)})
	w.Main = append(w.Main, Record{Topic: "main", Offset: int64(len(w.Main)), Key: first.Key, Value: first.Value}) // again
	w.die(w.send(w.good, "99.00", loadgen.Want{Outcome: loadgen.Dead, Reason: failure.OrderConflict, Amount: euros(9900)}), "conflict", "order_conflict", 1)
	w.charge(w.good, "10.00 EUR", noon)
	w.die(w.send(w.declined, "20.00", loadgen.Want{Outcome: loadgen.Charged, Amount: euros(2000)}), "declined", "declined", 1)
	w.Requests = append(w.Requests, rig.Request{At: noon, Order: w.declined.String(), Key: "k2", Status: 402})
	w.tell(w.declined, "billing.charge.failed.v1")
	w.wait(w.send(w.waited, "30.00", loadgen.Want{Outcome: loadgen.Charged, Amount: euros(3000)}), noon)
	w.ask(w.waited, noon.Add(-10*time.Millisecond), 503)
	w.charge(w.waited, "30.00 EUR", noon.Add(2*time.Second))
	w.die(w.send(uuid.Nil, "order 42", loadgen.Want{Outcome: loadgen.Dead, Reason: failure.NotJSON}), "invalid", "not_json", 1)
	w.Books.Taken = int64(len(w.Main))
	return w
}

func euros(minor int64) billing.Money { return billing.Money{Minor: minor, Currency: "EUR"} }

func (w *world) send(order uuid.UUID, value string, want loadgen.Want) Record {
	key := []byte(order.String())
	w.Events = append(w.Events, loadgen.Event{OrderID: order, Want: want, Record: kafkaclient.Record{Key: key, Value: []byte(value)}})
	r := Record{Topic: "main", Offset: int64(len(w.Main)), Key: key, Value: []byte(value)}
	w.Main = append(w.Main, r)
	return r
}

// follow is a record that stands for one of the main topic.
func follow(r Record, topic string, attempt int, at time.Time, more ...Header) Record {
	r.Headers = append([]Header{
		{"x-original-partition", "0"}, {"x-original-offset", strconv.FormatInt(r.Offset, 10)}, {"x-retry-attempt", strconv.Itoa(attempt)},
	}, more...)
	r.Topic, r.At = topic, at
	return r
}

func (w *world) die(r Record, class, reason string, attempt int) {
	w.Dead = append(w.Dead, follow(r, "dead", attempt, noon, Header{"x-error-class", class}, Header{"x-error-reason", reason}))
}

func (w *world) wait(r Record, at time.Time) {
	due := Header{"x-not-before", strconv.FormatInt(at.Add(time.Second).UnixMilli(), 10)}
	w.Tiers[0] = append(w.Tiers[0], follow(r, "tier", 1, at, due))
}

func (w *world) charge(order uuid.UUID, amount string, at time.Time) {
	w.Accounts[order.String()] = Account{Charges: 1, First: at, Amount: amount}
	w.Requests = append(w.Requests, rig.Request{At: at, Order: order.String(), Key: "k-" + order.String(), Status: 201})
	w.tell(order, "billing.charge.succeeded.v1")
}

func (w *world) ask(order uuid.UUID, at time.Time, status int) {
	w.Requests = append(w.Requests, rig.Request{At: at, Order: order.String(), Key: "k-" + order.String(), Status: status})
}

func (w *world) tell(order uuid.UUID, kind string) {
	value := fmt.Sprintf(`{"event_id":%q,"event_type":%q,"order_id":%q}`, uuid.NewString(), kind, order)
	w.Results = append(w.Results, Record{Topic: "results", Offset: int64(len(w.Results)), Key: []byte(order.String()), Value: []byte(value)})
}

func TestAGoodRoundPasses(t *testing.T) {
	v := Of(newWorld().Case)
	require.Empty(t, v.Problems)
	v.Problems = nil
	require.Equal(t, Verdict{Records: 6, Orders: 3, Charged: 2, Refused: 1, Bad: 1, Duplicates: 1, Conflicts: 1, Requests: 4}, *v)
}

func TestWhatIsWrongIsFound(t *testing.T) {
	for _, c := range []struct {
		name         string
		damage       func(w *world)
		says         string
		lost, double int
	}{
		{"charged twice", func(w *world) {
			w.Accounts[w.good.String()] = Account{Charges: 2, First: noon, Amount: "10.00 EUR"}
		}, "CHARGED 2 TIMES", 0, 1},
		{"lost", func(w *world) { delete(w.Accounts, w.waited.String()) }, "LOST", 1, 0},
		{"a bad record is lost", func(w *world) { w.Dead = w.Dead[:2] }, "not in the dead letters", 1, 0},
		{"a conflict is lost", func(w *world) { w.Dead = w.Dead[1:] }, "conflicts with the charged order and is not in the dead letters", 1, 0},
		{"another amount", func(w *world) {
			w.Accounts[w.good.String()] = Account{Charges: 1, First: noon, Amount: "1.00 EUR"}
		}, "which no record of it asked for", 0, 0},
		{"an order that nobody sent", func(w *world) { w.Accounts[uuid.NewString()] = Account{Charges: 1} }, "nobody sent", 0, 0},
		{"two keys", func(w *world) {
			w.Requests = append(w.Requests, rig.Request{At: noon, Order: w.good.String(), Key: "other"})
		}, "two keys", 0, 0},
		{"an event is lost", func(w *world) { w.Results = w.Results[1:] }, "the results tell map[]", 0, 0},
		{"two events", func(w *world) { w.tell(w.good, "billing.charge.succeeded.v1") }, "the results tell", 0, 0},
		{"a good order is dead", func(w *world) { w.die(w.Main[0], "rejected", "provider_misaddressed", 1) }, "charged, and record 0/0 is dead", 0, 0},
		{"given up too soon", func(w *world) {
			delete(w.Accounts, w.waited.String())
			w.die(w.Main[4], "exhausted", "provider_5xx", 3)
		}, "not charged, and record 0/4 is dead for exhausted", 0, 0},
		{"declined by nobody", func(w *world) { w.Requests[1].Status = 0 }, "is dead for declined", 0, 0},
		{"a wrong reason", func(w *world) { w.Dead[2].Headers[4].Value = "wrong_shape" }, "want \"not_json\"", 0, 0},
		{"a fifth failure", func(w *world) { w.Dead[2].Headers[2].Value = "5" }, "x-retry-attempt", 0, 0},
		{"changed on the way", func(w *world) { w.Tiers[0][0].Value = []byte("30.01") }, "byte for byte", 0, 0},
		{"an origin that is none", func(w *world) { w.Tiers[0][0].Headers[1].Value = "77" }, "stands for no record", 0, 0},
		{"early", func(w *world) {
			w.ask(w.waited, noon.Add(500*time.Millisecond), 201)
		}, "before it was due", 0, 0},
		{"an offset too far", func(w *world) {
			w.Committed = []Commit{{At: noon.Add(-time.Second), Topic: "main", Next: map[int32]int64{0: 5}}}
		}, "committed at 11:59:59.000 without a fate", 0, 0},
		{"a tier's offset too far", func(w *world) {
			w.Committed = []Commit{{At: noon.Add(time.Second), Topic: "tier", Next: map[int32]int64{0: 5}}}
		}, "tier 0/4 was committed", 0, 0},
		{"the balance", func(w *world) { w.Books.Difference = 1 }, "the balance is not even", 0, 0},
		{"a full outbox", func(w *world) { w.Books.Outbox = 1 }, "1 events in the outbox", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.damage(w)
			v := Of(w.Case)
			require.False(t, v.Passed())
			text := ""
			for _, p := range v.Problems {
				text += p.Text + "\n"
			}
			require.Contains(t, text, c.says)
			require.Equal(t, []int{c.lost, c.double}, []int{v.Lost, v.Double}, text)
		})
	}
}

// What may be although it is not nice, and is counted.
func TestWhatIsForgiven(t *testing.T) {
	w := newWorld()
	w.die(w.Main[4], "unknown", "provider_timeout", 4) // charged, and nobody could know
	w.die(w.Main[4], "unknown", "provider_timeout", 4) // published again
	w.Results = append(w.Results, w.Results[0])
	v := Of(w.Case)
	require.Empty(t, v.Problems)
	require.Equal(t, []int{1, 2}, []int{v.Unknown, v.Repeated})

	w = newWorld()
	delete(w.Accounts, w.waited.String())
	w.Results = w.Results[:2]
	w.die(w.Main[4], "exhausted", "provider_5xx", 4)
	v = Of(w.Case)
	require.Empty(t, v.Problems)
	require.Equal(t, 1, v.GivenUp)

	w = newWorld() // a database that was set back: the result is told again, and a conflict may be asked for first
	w.SetBack = true
	w.tell(w.good, "billing.charge.succeeded.v1")
	w.tell(w.declined, "billing.charge.failed.v1")
	w.Dead[0].Headers[4].Value = "key_reused"
	again := follow(w.Tiers[0][0], "tier-2", 2, noon.Add(5*time.Second), Header{"x-not-before", "0"}, Header{"x-original-topic", "tier"})
	w.Tiers[0][0].Offset = 77 // a retry record that the database does not know is handled as one of its own
	again.Headers[1].Value = "77"
	w.Tiers[1] = append(w.Tiers[1], again)
	require.Empty(t, Of(w.Case).Problems)
	w.SetBack = false
	require.NotEmpty(t, Of(w.Case).Problems)
}

// An order that was drained from a retry topic waits in any that is long enough (torture, seed 71005).
func TestADrainedOrderMayWaitInAnyTopic(t *testing.T) {
	w := newWorld()
	w.Tiers[0][0].Headers[2].Value = "2"
	require.Contains(t, problems(w), "x-retry-attempt")
	w.Ladders = true
	require.Empty(t, problems(w))
}

// A request that waited in a connection while its sender gave up comes after the retry record, and was not made early.
func TestARequestThatComesLateWasNotMadeEarly(t *testing.T) {
	w := newWorld()
	late := slices.IndexFunc(w.Requests, func(r rig.Request) bool { return r.Status == 503 })
	w.Requests[late].At = noon.Add(300 * time.Millisecond)
	require.Empty(t, Of(w.Case).Problems)

	w.ask(w.waited, noon.Add(400*time.Millisecond), 201) // and this one was
	require.Contains(t, Of(w.Case).Problems[0].Text, "600ms before it was due")
}
