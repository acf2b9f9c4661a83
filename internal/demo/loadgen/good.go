package loadgen

import (
	"bytes"
	"fmt"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

// prices are what plain orders cost: a format of whole units and hundredths for each currency. An empty currency leaves
// the field out, as the design document's event does.
var prices = []struct{ currency, format string }{
	{"", "%d.%02d"}, {"", "%d.%02d"}, {"", "%d.%02d"}, {"EUR", "%d.%02d"}, {"USD", "%d.%02d"}, {"GBP", "%d.%02d"}, {"JPY", "%d%02d"}, {"KWD", "%d.%02d0"},
}

// order is what the JSON of an event is written from.
type order struct {
	event, id, customer uuid.UUID
	amount, currency    string
	number              bool // the amount stands as a JSON number
}

func (o order) value() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"event_id":"%s","order_id":"%s","customer_id":"%s","total_amount":`, o.event, o.id, o.customer)
	if o.number {
		b.WriteString(o.amount)
	} else {
		b.WriteString(`"` + o.amount + `"`)
	}
	if o.currency != "" {
		b.WriteString(`,"currency":"` + o.currency + `"`)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func (g *Generator) good() Event {
	o := g.plain()
	e := g.charged("good", o, o.value())
	if len(g.latest) < remembered {
		g.latest = append(g.latest, e)
	} else {
		g.latest[g.made%remembered] = e
	}
	g.made++
	return e
}

// plain is an order that any team would accept.
func (g *Generator) plain() order {
	p := prices[g.rnd.IntN(len(prices))]
	amount := fmt.Sprintf(p.format, 1+g.rnd.IntN(999), g.rnd.IntN(100))
	if p.currency == "" {
		m, err := billing.ParseMoney(amount, g.cfg.Currency)
		if err != nil { // the default currency has fewer digits
			m = billing.Money{Minor: int64(1 + g.rnd.IntN(99_999)), Currency: g.cfg.Currency}
		}
		amount = m.Decimal()
	}
	return order{event: g.uuid(), id: g.uuid(), customer: g.uuid(), amount: amount, currency: p.currency, number: g.rnd.IntN(2) == 0}
}

// charged is an event of the order that is to be charged with the order's amount.
func (g *Generator) charged(kind string, o order, value []byte) Event {
	currency := o.currency
	if currency == "" {
		currency = g.cfg.Currency
	}
	m, err := billing.ParseMoney(o.amount, currency)
	if err != nil { // the tables of this package hold amounts that their currency has
		panic(fmt.Sprintf("loadgen: %s: %v", kind, err))
	}
	return Event{Kind: kind, OrderID: o.id, Record: g.record([]byte(o.id.String()), value), Want: Want{Outcome: Charged, Amount: m}}
}

func (g *Generator) record(key, value []byte) kafkaclient.Record {
	return kafkaclient.Record{Topic: g.cfg.Topic, Key: key, Value: value}
}

// repeat is an earlier event again. Records of one key are handled in order, so the repeat is the duplicate, unless the
// first one waits in a retry topic: then they change places, and there is still one of each.
func (g *Generator) repeat() Event {
	e := g.latest[g.rnd.IntN(len(g.latest))]
	e.Kind, e.Want = "repeat", Want{Outcome: Duplicate}
	return e
}

// conflict is an earlier order with a new event id, customer and price: the provider must never see it.
func (g *Generator) conflict() Event {
	e := g.latest[g.rnd.IntN(len(g.latest))]
	other := g.plain()
	other.id = e.OrderID
	charged := g.charged("conflict", other, other.value()) // should it be the first that is claimed
	e.Kind, e.Want = charged.Kind, Want{Outcome: Dead, Reason: failure.OrderConflict, Amount: charged.Want.Amount}
	e.Record = g.record(e.Record.Key, charged.Record.Value)
	return e
}
