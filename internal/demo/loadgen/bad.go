package loadgen

import (
	"strings"

	"example.com/billing/internal/failure"
)

// badKind is one way in which an event can be wrong. In the value, $E, $O and $C stand for the three ids.
type badKind struct {
	name   string
	value  string
	reason failure.Reason
}

// nullValue is a tombstone. On the wire it is not the same as an empty value.
const nullValue = "null value"

// nesting is deep enough to end a recursive decoder, and under the broker's limit of 1 MB.
const nesting = 900_000

// badKinds is all bad input that was ever seen or thought of. Each one must end as one dead letter with its own reason.
var badKinds = []badKind{
	{nullValue, "", failure.EmptyValue},
	{"empty value", "", failure.EmptyValue},
	{"not json", `order $O confirmed`, failure.NotJSON},
	{"truncated", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"14`, failure.NotJSON},
	{"trailing data", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"149.90"}{}`, failure.NotJSON},
	{"bare NaN", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":NaN}`, failure.NotJSON},
	{"array", `["$E","$O","$C","149.90"]`, failure.WrongShape},
	{"scalar", `"$O"`, failure.WrongShape},
	{"amount as object", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":{"value":"149.90"}}`, failure.WrongShape},
	{"deep nesting", strings.Repeat("[", nesting/2) + strings.Repeat("]", nesting/2), failure.WrongShape},
	{"missing field", `{"event_id":"$E","order_id":"$O","total_amount":"149.90"}`, failure.MissingField},
	{"null field", `{"event_id":"$E","order_id":"$O","customer_id":null,"total_amount":"149.90"}`, failure.MissingField},
	{"empty field", `{"event_id":"$E","order_id":"$O","customer_id":"","total_amount":"149.90"}`, failure.MissingField},
	{"misspelt field", `{"event_id":"$E","order_id":"$O","custmer_id":"$C","total_amount":"149.90"}`, failure.MissingField},
	{"other case", `{"event_id":"$E","order_id":"$O","customer_id":"$C","Total_Amount":"149.90"}`, failure.MissingField},
	{"same key twice", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"1.00","total_amount":"149.90"}`, failure.DuplicateField},
	{"uuid in braces", `{"event_id":"$E","order_id":"{$O}","customer_id":"$C","total_amount":"149.90"}`, failure.InvalidUUID},
	{"uuid too short", `{"event_id":"$E","order_id":"$O","customer_id":"42","total_amount":"149.90"}`, failure.InvalidUUID},
	{"amount 0", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":0}`, failure.AmountNotPositive},
	{"amount negative", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"-5.00"}`, failure.AmountNotPositive},
	{"amount with plus", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"+10"}`, failure.InvalidAmount},
	{"amount .5", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":".5"}`, failure.InvalidAmount},
	{"amount 1e3", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"1e3"}`, failure.InvalidAmount},
	{"amount 1e20000000", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":1e20000000}`, failure.InvalidAmount},
	{"amount NaN", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"NaN"}`, failure.InvalidAmount},
	{"amount empty", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":""}`, failure.InvalidAmount},
	{"amount of 40 digits", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"` + strings.Repeat("7", 40) + `"}`, failure.AmountTooLarge},
	{"EUR 0.999", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"0.999","currency":"EUR"}`, failure.AmountTooPrecise},
	{"JPY 500.5", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":500.5,"currency":"JPY"}`, failure.AmountTooPrecise},
	{"KWD 18.6001", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"18.6001","currency":"KWD"}`, failure.AmountTooPrecise},
	{"unknown currency", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"1.00","currency":"XYZ"}`, failure.UnknownCurrency},
	{"invalid UTF-8", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"1.00","note":"` + "\xff\xfe" + `"}`, failure.InvalidUTF8},
	{"NUL in a string", `{"event_id":"$E","order_id":"$O","customer_id":"$C","total_amount":"1.00","note":"\u0000"}`, failure.WrongShape},
}

func (g *Generator) badEvent() Event {
	kind := badKinds[g.bad%len(badKinds)]
	g.bad++
	id := g.uuid()
	value := []byte(strings.NewReplacer("$E", g.uuid().String(), "$O", id.String(), "$C", g.uuid().String()).Replace(kind.value))
	if kind.name == nullValue {
		value = nil
	}
	return Event{Kind: kind.name, Record: g.record([]byte(id.String()), value), Want: Want{Outcome: Dead, Reason: kind.reason}}
}
