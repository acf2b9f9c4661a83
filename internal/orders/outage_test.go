package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/httpprovider"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/hold"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

const (
	outageLasts  = 10 * time.Minute
	outageOrders = 120
	floodCount   = 50
)

// plant is the real line, service, ladder, router and processor on a store, a provider and topics in memory, in a bubble
// of time: ten minutes pass at once. It answers the question "everyone gets this for ten minutes: how many orders die?"
type plant struct {
	t       *testing.T
	line    *hold.Line
	ladder  retry.Ladder
	handle  kafkaclient.Handler
	slots   chan struct{}
	broken  func(step string) error // what everyone gets; nil: nothing
	started time.Time
	work    sync.WaitGroup

	mu      sync.Mutex
	charged map[uuid.UUID]int
	rows    map[uuid.UUID]billing.State
	unsure  map[uuid.UUID]bool
	dead    map[failure.Reason]int
	counted int // failures that were counted
}

// How often an order arrives. Few enough dead letters a minute are no flood: the alert tells of them.
const (
	fast = 200 * time.Millisecond
	slow = 3 * time.Second
)

// Steps at which an outage can strike.
const (
	atClaim   = "claim"
	atCharge  = "charge"
	atLookUp  = "look-up"
	atSettle  = "settle"
	atFate    = "fate"
	atPublish = "publish"
)

func newPlant(t *testing.T, broken func(step string) error) *plant {
	p := &plant{
		t: t, broken: broken, started: time.Now(), slots: make(chan struct{}, 80), ladder: retry.NewLadder("orders.confirmed", "g", []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}),
		charged: map[uuid.UUID]int{}, rows: map[uuid.UUID]billing.State{}, unsure: map[uuid.UUID]bool{}, dead: map[failure.Reason]int{},
	}
	log := slog.New(slog.DiscardHandler)
	p.line = hold.NewLine(hold.Config{
		Policy: failure.Hold, BreakerRun: 5, BreakerPair: 5 * time.Second, FloodCount: floodCount, FloodRatio: 0.5,
		ProbeMin: 200 * time.Millisecond, ProbeMax: time.Second, Clock: time.Now, Log: log,
	})
	service, err := billing.NewService(p, p, billing.ServiceConfig{InFlight: 64, Window: 20 * time.Hour, MaxProcessing: time.Minute, Verdict: p.line.Verdict, Unwritten: Unwritten(p.line, time.Now), Clock: time.Now, Log: log})
	require.NoError(t, err)
	router := retry.NewRouter(retry.RouterConfig{Ladder: p.ladder, Line: p.line, Publisher: p, Ledger: p, Clock: time.Now, Log: log, Observe: func(string, string) {}})
	processor := NewProcessor(ProcessorConfig{
		Opener: opener{p.ladder}, Charger: service, Ledger: p, Router: router, Currency: "EUR", TopicID: func(string) uuid.UUID { return uuid.Max },
		Window: 20 * time.Hour, Clock: time.Now,
	})
	p.handle = router.Admit(processor.Process)
	return p
}

// opener believes every header: there are no forged ones here.
type opener struct{ ladder retry.Ladder }

func (o opener) Open(_ context.Context, m kafkaclient.Message, _ uuid.UUID) (retry.Envelope, error) {
	return o.ladder.Open(m, time.Now()), nil
}

// fails is the outage at this step, while it lasts.
func (p *plant) fails(step string) error {
	if p.broken == nil || time.Since(p.started) > outageLasts {
		return nil
	}
	return p.broken(step)
}

func (p *plant) Claim(_ context.Context, o billing.Order) (*billing.Claim, *billing.Standing, error) {
	if err := p.fails(atClaim); err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state := p.rows[o.ID]; state {
	case billing.Succeeded, billing.Declined, billing.Rejected, billing.Review:
		return nil, &billing.Standing{State: state, SameContent: true, Currency: "EUR", Reason: failure.Declined}, nil
	case billing.InFlight:
		return nil, &billing.Standing{State: state, SameContent: true, Currency: "EUR"}, nil
	}
	_, known := p.rows[o.ID]
	c := &billing.Claim{
		ID: uuid.New(), Order: o, Generation: 1, Unknown: p.unsure[o.ID], Now: time.Now(),
		SendBy: time.Now().Add(5 * time.Second), LeaseEnd: time.Now().Add(15 * time.Second),
	}
	if known {
		c.FirstSentAt, c.LastSentAt = c.Now.Add(-time.Minute), c.Now.Add(-2*time.Minute)
	}
	p.rows[o.ID] = billing.InFlight
	return c, nil, nil
}

func (p *plant) Settle(_ context.Context, c *billing.Claim, s billing.Settlement) (bool, error) {
	if err := p.fails(atSettle); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[c.Order.ID], p.unsure[c.Order.ID] = s.State, s.Unknown
	return true, nil
}

func (p *plant) Charge(ctx context.Context, r billing.ChargeRequest) (billing.ProviderCharge, billing.Call, error) {
	call := billing.Call{Sent: true}
	if err := p.fails(atCharge); err != nil {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		return billing.ProviderCharge{}, call, err
	}
	<-time.After(20 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charged[r.Reference]++
	return billing.ProviderCharge{ID: "ch_" + r.Reference.String(), Reference: r.Reference, Amount: r.Amount}, call, nil
}

func (p *plant) Find(context.Context, uuid.UUID) ([]billing.ProviderCharge, bool, error) {
	if err := p.fails(atLookUp); err != nil {
		if errors.Is(err, errUnsure) {
			return nil, false, nil
		}
		return nil, false, err
	}
	return nil, true, nil
}

// errUnsure makes a look-up say that its list may be incomplete.
var errUnsure = errors.New("not consistent")

func (*plant) Moved(context.Context, uuid.UUID) (billing.Moved, error) { return billing.NoMoney, nil }

func (p *plant) RecordFate(context.Context, retry.Fate) error { return p.fails(atFate) }

func (p *plant) Listed(context.Context, retry.Envelope) (bool, error) { return false, p.fails(atFate) }

func (*plant) Park(context.Context, kafkaclient.Record) (uuid.UUID, error) {
	return uuid.Nil, errors.New("nothing here is too large")
}

func (p *plant) Publish(_ context.Context, r kafkaclient.Record) error {
	if err := p.fails(atPublish); err != nil {
		return err
	}
	m := kafkaclient.Message{Topic: r.Topic, Offset: time.Now().UnixNano(), Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: time.Now()}
	if r.Topic == p.ladder.DeadLetters() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dead[retry.OpenDeadLetter(m).Reason]++
		return nil
	}
	if e := p.ladder.Open(m, time.Now()); e.Failures > 0 {
		p.mu.Lock()
		p.counted++
		p.mu.Unlock()
	}
	p.deliver(m)
	return nil
}

// deliver hands a message to the service as the consumer does: when it is due, with a slot, through the gate, and again
// until it has a fate.
func (p *plant) deliver(m kafkaclient.Message) {
	p.work.Go(func() {
		<-time.After(time.Until(p.ladder.Open(m, time.Now()).NotBefore))
		for {
			err := p.once(&m)
			if err == nil {
				return
			}
			m.Tries++
			var later interface{ RetryIn() time.Duration }
			require.ErrorAs(p.t, err, &later)
			<-time.After(later.RetryIn())
		}
	})
}

func (p *plant) once(m *kafkaclient.Message) error {
	p.slots <- struct{}{}
	defer func() { <-p.slots }()
	leave, err := p.line.Enter(p.t.Context())
	require.NoError(p.t, err)
	defer leave()
	if m.Since.IsZero() {
		m.Since = time.Now()
	}
	return p.handle(p.t.Context(), *m)
}

// outage is what became of the orders.
type outage struct {
	dead    int
	twice   int
	missing int
	counted int
}

// endure produces orders, one after every pause, and waits until each has its fate. An old backlog must be looked
// up before it is sent.
func endure(t *testing.T, every time.Duration, oldBacklog bool, broken func(step string) error) (o outage) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, broken)
		for i := range outageOrders {
			id := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i))
			confirmed := time.Now()
			if oldBacklog {
				confirmed = confirmed.Add(-48 * time.Hour)
			}
			p.deliver(kafkaclient.Message{
				Topic: "orders.confirmed", Offset: int64(i), Key: id[:], Timestamp: confirmed,
				Value: fmt.Appendf(nil, `{"event_id": %q, "order_id": %q, "customer_id": %q, "total_amount": "9.90"}`, id, id, id),
			})
			<-time.After(every)
		}
		p.work.Wait()
		for _, n := range p.dead {
			o.dead += n
		}
		for _, n := range p.charged {
			if n > 1 {
				o.twice++
			}
		}
		o.missing = outageOrders - o.dead - len(p.charged)
		o.counted = p.counted
	})
	return o
}

// outageOf is how a reason comes to everyone.
func outageOf(r failure.Reason) func(step string) error {
	step := atCharge
	switch {
	case strings.HasPrefix(string(r), "database_"):
		step = atClaim
	case r == failure.BrokerDown, r == failure.PublishRefused:
		return func(s string) error {
			switch s {
			case atPublish:
				if r == failure.PublishRefused {
					return kafkaclient.ErrRefused
				}
				return errors.New("not acknowledged")
			case atCharge: // something must want to be published
				return failure.New(failure.ProviderTryAgain, "test")
			}
			return nil
		}
	case r == failure.LookupInconclusive:
		return func(s string) error { return map[string]error{atLookUp: errUnsure}[s] }
	case r == failure.Unclassified:
		return func(s string) error { return map[string]error{atClaim: errors.New("an error that nobody knows")}[s] }
	case r == failure.OperatorPause:
		return func(s string) error { return map[string]error{atClaim: failure.New(r, "test")}[s] }
	}
	return func(s string) error {
		if s != step {
			return nil
		}
		return failure.New(r, "test")
	}
}

// own tells the reasons that are the message's own, so that it dies of them; what a flood lets through before it is noticed
// is bounded. A refusal is the message's own also when it proves nothing about an earlier request.
func own(r failure.Reason) bool {
	return failure.Hold.Fault(r) == failure.OfMessage || r == failure.RefusedAfterUnknown
}

// Everyone gets this for ten minutes, then it is cured (hazard H21): how many orders died? docs/reasons.md has the answers.
func TestAnOutageOfAnyReasonCostsNoOrder(t *testing.T) {
	for _, r := range failure.Reasons() {
		switch r {
		case failure.ShuttingDown, failure.DeadLetterFlood, failure.OrderBusy, failure.OperatorPause:
			continue // not an outage: ours, or of one order, or a person's
		}
		t.Run(string(r), func(t *testing.T) {
			for every, limit := range map[time.Duration]int{fast: floodCount - 1, slow: outageOrders} {
				o := endure(t, every, r == failure.LookupInconclusive, outageOf(r))
				require.Zero(t, o.twice+o.missing, "%+v", o)
				if own(r) {
					require.LessOrEqual(t, o.dead, limit, "one every %s", every)
				} else {
					require.Zero(t, o.dead, "one every %s", every)
					require.LessOrEqual(t, o.counted, 20, "one every %s", every)
				}
			}
		})
	}
}

// The same question for each status that a provider can answer, with the page of some proxy and with the contract's body.
func TestAnOutageOfAnyStatusCostsNoOrder(t *testing.T) {
	bodies := map[string]func(w http.ResponseWriter, status int){
		"a page": func(w http.ResponseWriter, status int) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>Service Unavailable</html>")
		},
		"a problem": func(w http.ResponseWriter, status int) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": "no", "code": "some_code"})
		},
	}
	contract := []int{400, 402, 413, 415, 422} // final, as the contract writes them
	verdicts := map[string]outage{}
	for name, body := range bodies {
		for status := 300; status < 600; status++ {
			f := answerOf(t, status, body)
			key := fmt.Sprint(f.Reason, f.Uncounted, f.Final, f.RetryAfter)
			o, done := verdicts[key]
			if !done {
				o = endure(t, fast, false, func(step string) error {
					if step != atCharge {
						return nil
					}
					again := *f
					return &again
				})
				verdicts[key] = o
			}
			limit := 0
			if name == "a problem" && own(f.Reason) {
				limit = floodCount - 1
			}
			require.LessOrEqual(t, o.dead, limit, "%d with %s: %s", status, name, f)
			require.Zero(t, o.twice+o.missing, "%d with %s: %s", status, name, f)
			if slices.Contains(contract, status) {
				require.Equal(t, name == "a problem", own(f.Reason), "%d with %s is %s", status, name, f)
			}
		}
	}
	t.Logf("%d kinds of failure: %v", len(verdicts), slices.Sorted(maps.Keys(verdicts)))
}

// answerOf is what the real client makes of a status.
func answerOf(t *testing.T, status int, body func(http.ResponseWriter, int)) *failure.Error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { body(w, status) }))
	defer server.Close()
	client, err := httpprovider.New(httpprovider.Config{URL: server.URL, Timeout: 5 * time.Second, MaxConns: 1, Observe: func(string, time.Duration) {}, Clock: time.Now})
	require.NoError(t, err)
	defer client.Close()
	_, _, err = client.Charge(t.Context(), billing.ChargeRequest{Key: uuid.New(), Reference: uuid.New(), CustomerID: uuid.New(), Amount: billing.Money{Minor: 990, Currency: "EUR"}, SendBy: time.Now().Add(time.Minute)})
	require.Error(t, err)
	return failure.Of(err)
}
