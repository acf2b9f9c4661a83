package loadgen

import (
	"bytes"
	"strings"

	"example.com/billing/internal/platform/kafkaclient"
)

// oddKind is a correct event that is easily lost or charged wrongly.
type oddKind struct {
	name string
	make func(g *Generator) Event
}

// oddKinds are all to be charged, exactly.
var oddKinds = []oddKind{
	{"null key", withKey(nil)},
	{"empty key", withKey([]byte{})},
	{"another key", withKey([]byte("customer-7"))},
	{"attempt -1", withAttempts("-1")},
	{"attempt too large", withAttempts("99999999999999999999")},
	{"attempt abc", withAttempts("abc")},
	{"attempt twice", withAttempts("2", "3")},
	{"148062.76", withAmount("148062.76", "EUR", true)},
	{"9007199254740993.01", withAmount("9007199254740993.01", "EUR", true)}, // a float64 would round it
	{"0.01", withAmount("0.01", "EUR", false)},
	{"JPY 500", withAmount("500", "JPY", true)},
	{"KWD 18.600", withAmount("18.600", "KWD", true)},
	{"upper-case uuid", withValue(upperIDs)},
	{"unknown fields", withValue(func(v []byte) []byte {
		return append(bytes.TrimSuffix(v, []byte("}")), `,"event_type":"order.confirmed.v2","lines":[{"sku":"A-1","total_amount":"7"}],"note":null}`...)
	})},
	{"white space", withValue(func(v []byte) []byte { return []byte(" \r\n\t" + strings.ReplaceAll(string(v), ":", " : ") + "\n") })},
}

func (g *Generator) oddEvent() Event {
	kind := oddKinds[g.odd%len(oddKinds)]
	g.odd++
	e := kind.make(g)
	e.Kind = kind.name
	return e
}

func withKey(key []byte) func(*Generator) Event {
	return func(g *Generator) Event {
		o := g.plain()
		e := g.charged("", o, o.value())
		e.Record.Key = key
		return e
	}
}

// withAttempts forges the header that counts failures: on the main topic it may neither lengthen nor shorten the ladder.
func withAttempts(values ...string) func(*Generator) Event {
	return func(g *Generator) Event {
		o := g.plain()
		e := g.charged("", o, o.value())
		for _, v := range values {
			e.Record.Headers = append(e.Record.Headers, kafkaclient.Header{Key: "x-retry-attempt", Value: []byte(v)})
		}
		return e
	}
}

func withAmount(amount, currency string, number bool) func(*Generator) Event {
	return func(g *Generator) Event {
		o := g.plain()
		o.amount, o.currency, o.number = amount, currency, number
		return g.charged(amount, o, o.value())
	}
}

func withValue(change func([]byte) []byte) func(*Generator) Event {
	return func(g *Generator) Event {
		o := g.plain()
		return g.charged("", o, change(o.value()))
	}
}

// upperIDs writes the ids in upper case and leaves the field names as they are.
func upperIDs(v []byte) []byte {
	fields := strings.Split(string(v), `"`)
	for i, f := range fields {
		if len(f) == 36 {
			fields[i] = strings.ToUpper(f)
		}
	}
	return []byte(strings.Join(fields, `"`))
}
