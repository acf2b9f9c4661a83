package orders

import (
	"fmt"
	"strings"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

const (
	eventID    = "0190f5a2-7c1e-7b3a-8f00-0000000000e1"
	orderID    = "0190f5a2-7c1e-7b3a-8f00-0000000000a1"
	customerID = "0190f5a2-7c1e-7b3a-8f00-0000000000c1"
)

// ids are the three fields that most cases have in common.
const ids = `"event_id":"` + eventID + `","order_id":"` + orderID + `","customer_id":"` + customerID + `"`

// event is an event with these further fields.
func event(rest string) string { return "{" + ids + "," + rest + "}" }

// amountOf is an event with this JSON value as its amount, in this currency.
func amountOf(amount, currency string) string {
	return event(fmt.Sprintf(`"total_amount":%s,"currency":%q`, amount, currency))
}

type acceptedCase struct {
	name     string
	value    string
	want     billing.Money
	wantText string
}

func acceptedCases() []acceptedCase {
	eur := func(minor int64) billing.Money { return billing.Money{Minor: minor, Currency: "EUR"} }
	plain := eur(14990)
	return []acceptedCase{
		{"string", event(`"total_amount":"149.90"`), plain, "149.90"},
		{"number", event(`"total_amount":149.90`), plain, "149.90"},
		{"fewer fraction digits", event(`"total_amount":149.9`), plain, "149.9"},
		{"no fraction", event(`"total_amount":149`), eur(14900), "149"},
		{"148062.76 as string", event(`"total_amount":"148062.76"`), eur(14806276), "148062.76"},
		{"148062.76 as number", event(`"total_amount":148062.76`), eur(14806276), "148062.76"},
		{"9007199254740993.01 as string", event(`"total_amount":"9007199254740993.01"`), eur(900719925474099301), "9007199254740993.01"},
		{"9007199254740993.01 as number", event(`"total_amount":9007199254740993.01`), eur(900719925474099301), "9007199254740993.01"},
		{"0.01 as string", event(`"total_amount":"0.01"`), eur(1), "0.01"},
		{"0.01 as number", event(`"total_amount":0.01`), eur(1), "0.01"},
		{"JPY as string", amountOf(`"500"`, "JPY"), billing.Money{Minor: 500, Currency: "JPY"}, "500"},
		{"JPY as number", amountOf(`500`, "JPY"), billing.Money{Minor: 500, Currency: "JPY"}, "500"},
		{"KWD as string", amountOf(`"18.600"`, "KWD"), billing.Money{Minor: 18600, Currency: "KWD"}, "18.600"},
		{"KWD as number", amountOf(`18.600`, "KWD"), billing.Money{Minor: 18600, Currency: "KWD"}, "18.600"},
		{"upper-case UUIDs", strings.NewReplacer(eventID, strings.ToUpper(eventID), orderID, strings.ToUpper(orderID),
			customerID, strings.ToUpper(customerID)).Replace(event(`"total_amount":"149.90"`)), plain, "149.90"},
		{"escapes in keys and values", strings.Replace(event(`"total_\u0061mount":"149\u002e90"`), "-", `\u002d`, 4), plain, "149.90"},
		{"white space", " \r\n\t" + strings.ReplaceAll(event(`"total_amount":"149.90"`), ":", " : ") + "\n", plain, "149.90"},
		{"unknown fields", event(`"total_amount":"149.90","lines":[{"sku":"A","total_amount":7},{"sku":"B","order_id":null}],"note":null,"":1`), plain, "149.90"},
		{"known names in another case beside the right ones", event(`"total_amount":"149.90","Total_Amount":"1.00","CURRENCY":"JPY"`), plain, "149.90"},
		{"a number of a million digits", event(`"total_amount":"149.90","x":` + strings.Repeat("7", 1_000_000)), plain, "149.90"},
		{"a text of 1 MB", event(`"total_amount":"149.90","x":"` + strings.Repeat("é", 500_000) + `"`), plain, "149.90"},
		{"nesting 9,000 deep", event(`"total_amount":"149.90","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000)), plain, "149.90"},
		{"the text backslash u0000", event(`"total_amount":"149.90","path":"C:\\u0000"`), plain, "149.90"},
		{"surrogate pair", event(`"total_amount":"149.90","note":"\ud83d\ude00"`), plain, "149.90"},
	}
}

type refusedCase struct {
	name   string
	value  string
	want   failure.Reason
	detail string // what the message must tell
}

func refusedCases() []refusedCase {
	cases := []refusedCase{
		{"empty", "", failure.EmptyValue, "no value"},

		{"white space only", "  ", failure.NotJSON, "at byte 2 of 2"},
		{"text", "order confirmed", failure.NotJSON, "at byte 0 of 15"},
		{"truncated", `{"event_id":"` + eventID, failure.NotJSON, "the text ends before the value does"},
		{"truncated after good fields", "{" + ids + `,"total_amount":"149.90"`, failure.NotJSON, "the text ends before the value does"},
		{"trailing object", event(`"total_amount":"1.00"`) + "{}", failure.NotJSON, "the text goes on after the value"},
		{"trailing comma", event(`"total_amount":"1.00",`), failure.NotJSON, "a character that JSON does not allow"},
		{"NaN", event(`"total_amount":NaN`), failure.NotJSON, "a character that JSON does not allow"},
		{"number with plus", event(`"total_amount":+10`), failure.NotJSON, "a character that JSON does not allow"},
		{"number without leading digit", event(`"total_amount":.5`), failure.NotJSON, "a character that JSON does not allow"},
		{"number with leading zero", event(`"total_amount":007`), failure.NotJSON, "at byte"},
		{"byte order mark", "\xef\xbb\xbf" + event(`"total_amount":"1.00"`), failure.NotJSON, "at byte 0"},
		{"raw NUL", event("\"total_amount\":\"1.00\",\"note\":\"\x00\""), failure.NotJSON, "at byte"},
		{"single quotes", `{'event_id':1}`, failure.NotJSON, "at byte 1"},
		{"wrong escape", event(`"total_amount":"1.00","note":"\x"`), failure.NotJSON, "at byte"},
		{"truncated array", `[1,2`, failure.NotJSON, "the text ends before the value does"},
		{"text that starts with a number", `42 orders`, failure.NotJSON, "the text goes on after the value"},
		{"text that starts with a string", `"42" orders`, failure.NotJSON, "the text goes on after the value"},

		{"null", "null", failure.WrongShape, "want an object"},
		{"array", `["` + orderID + `"]`, failure.WrongShape, "a JSON array, want an object"},
		{"string", `"` + orderID + `"`, failure.WrongShape, "want an object"},
		{"number", "149.90", failure.WrongShape, "want an object"},
		{"boolean", "true", failure.WrongShape, "want an object"},
		{"order_id as number", strings.Replace(event(`"total_amount":"1.00"`), `"`+orderID+`"`, "42", 1), failure.WrongShape, "order_id at byte 62 is a JSON number"},
		{"amount as object", event(`"total_amount":{"value":"1.00"}`), failure.WrongShape, "total_amount at byte"},
		{"amount as array", event(`"total_amount":["1.00"]`), failure.WrongShape, "total_amount at byte"},
		{"amount as boolean", event(`"total_amount":true`), failure.WrongShape, "total_amount at byte"},
		{"currency as number", event(`"total_amount":"1.00","currency":978`), failure.WrongShape, "currency at byte"},

		{"NUL in an unknown value", event(`"total_amount":"1.00","note":"a\u0000b"`), failure.WrongShape, "NUL"},
		{"NUL after an escaped backslash", event(`"total_amount":"1.00","note":"\\\u0000"`), failure.WrongShape, "NUL"},
		{"NUL in a nested value", event(`"total_amount":"1.00","x":[{"y":"\u0000"}]`), failure.WrongShape, "NUL"},
		{"NUL in a key", event(`"total_amount":"1.00","a\u0000":1`), failure.WrongShape, "NUL"},
		{"NUL after a text like it", event(`"total_amount":"1.00","a":"\\u0000","b":"\u0000"`), failure.WrongShape, "NUL"},
		{"NUL in an id", strings.Replace(event(`"total_amount":"1.00"`), orderID, orderID[:35]+`\u0000`, 1), failure.InvalidUUID, "order_id"},
		{"NUL in the amount", event(`"total_amount":"1.00\u0000"`), failure.InvalidAmount, "total_amount"},
		{"NUL in the currency", event(`"total_amount":"1.00","currency":"EUR\u0000"`), failure.UnknownCurrency, "currency"},

		{"900 kB of arrays", strings.Repeat("[", 450_000) + strings.Repeat("]", 450_000), failure.WrongShape, "10,000 levels"},
		{"900 kB of open arrays", strings.Repeat("[", 900_000), failure.WrongShape, "10,000 levels"},
		{"900 kB of objects", strings.Repeat(`{"a":`, 180_000), failure.WrongShape, "10,000 levels"},
		{"900 kB in an unknown field", event(`"total_amount":"1.00","x":` + strings.Repeat("[", 450_000) + strings.Repeat("]", 450_000)), failure.WrongShape, "10,000 levels"},
		{"900 kB in a known field", event(`"total_amount":` + strings.Repeat("[", 450_000) + strings.Repeat("]", 450_000)), failure.WrongShape, "10,000 levels"},

		{"an amount of a million digits", event(`"total_amount":` + strings.Repeat("7", 1_000_000)), failure.AmountTooLarge, "more than 18 digits"},
		{"a million fraction digits", event(`"total_amount":0.` + strings.Repeat("0", 1_000_000)), failure.AmountTooPrecise, "more than the 2 fraction digits"},
		{"an amount text of 1 MB", event(`"total_amount":"` + strings.Repeat("x", 1_000_000) + `"`), failure.InvalidAmount, "total_amount"},
		{"a currency of 1 MB", event(`"total_amount":"1.00","currency":"` + strings.Repeat("E", 1_000_000) + `"`), failure.UnknownCurrency, "currency"},
		{"an id of 1 MB", strings.Replace(event(`"total_amount":"1.00"`), orderID, strings.Repeat("0", 1_000_000), 1), failure.InvalidUUID, "order_id"},
		{"an escape sequence as the amount", event(`"total_amount":"\u001b[2J\u009b2J\u202e"`), failure.InvalidAmount, "total_amount is not a plain decimal"},

		{"empty object", "{}", failure.MissingField, "event_id is missing"},
		{"amount missing", "{" + ids + "}", failure.MissingField, "total_amount is missing"},
		{"amount null", event(`"total_amount":null`), failure.MissingField, "total_amount is null"},
		{"amount in another case", event(`"Total_Amount":"1.00"`), failure.MissingField, "total_amount is missing"},
		{"currency null", event(`"total_amount":"1.00","currency":null`), failure.MissingField, "currency is null"},
		{"currency empty", event(`"total_amount":"1.00","currency":""`), failure.MissingField, "currency is empty"},
		{"field misspelt", strings.Replace(event(`"total_amount":"1.00"`), "customer_id", "custmer_id", 1), failure.MissingField, "customer_id is missing"},

		{"amount twice", event(`"total_amount":"1.00","total_amount":"149.90"`), failure.DuplicateField, "total_amount stands twice"},
		{"amount twice, the same", event(`"total_amount":"1.00","total_amount":"1.00"`), failure.DuplicateField, "total_amount stands twice"},
		{"amount twice, one escaped", event(`"total_amount":"1.00","total_am\u006funt":"149.90"`), failure.DuplicateField, "total_amount stands twice"},
		{"unknown field twice", event(`"total_amount":"1.00","a":1,"a":2`), failure.DuplicateField, "a key stands twice"},
		{"twice in a nested object", event(`"total_amount":"1.00","x":[{"a":1,"a":2}]`), failure.DuplicateField, "a key stands twice"},
		{"twice in a known field's object", event(`"total_amount":{"a":1,"a":2}`), failure.DuplicateField, "a key stands twice"},

		{"invalid byte in a value", event("\"total_amount\":\"1.00\",\"note\":\"\xff\xfe\""), failure.InvalidUTF8, "at byte 184"},
		{"invalid byte in a key", event("\"total_amount\":\"1.00\",\"\xc3\":1"), failure.InvalidUTF8, "at byte"},
		{"invalid byte in the amount", event("\"total_amount\":\"1.00\xff\""), failure.InvalidUTF8, "at byte"},
		{"overlong encoding", event("\"total_amount\":\"1.00\",\"note\":\"\xc0\x80\""), failure.InvalidUTF8, "at byte"},
		{"binary", "\x00\x00\x00\x00\x07\xfa", failure.InvalidUTF8, "at byte 5"},
		{"lone high surrogate", event(`"total_amount":"1.00","note":"\ud800"`), failure.InvalidUTF8, "surrogate"},
		{"lone low surrogate", event(`"total_amount":"1.00","note":"\uDC00 and more"`), failure.InvalidUTF8, "surrogate"},
		{"two high surrogates", event(`"total_amount":"1.00","note":"\ud800\ud800"`), failure.InvalidUTF8, "surrogate"},
		{"lone surrogate in a key", event(`"total_amount":"1.00","\ud800":1`), failure.InvalidUTF8, "surrogate"},
	}
	return append(append(cases, refusedIDs()...), refusedAmounts()...)
}

// refusedIDs is what each of the three UUID fields must refuse.
func refusedIDs() (cases []refusedCase) {
	for name, id := range map[string]string{"event_id": eventID, "order_id": orderID, "customer_id": customerID} {
		with := func(what, json string, reason failure.Reason) {
			value := strings.Replace(event(`"total_amount":"1.00"`), `"`+id+`"`, json, 1)
			cases = append(cases, refusedCase{name + " " + what, value, reason, name})
		}
		with("null", `null`, failure.MissingField)
		with("empty", `""`, failure.MissingField)
		with("as boolean", `false`, failure.WrongShape)
		with("nil UUID", `"00000000-0000-0000-0000-000000000000"`, failure.InvalidUUID)
		with("in braces", `"{`+id+`}"`, failure.InvalidUUID)
		with("as urn", `"urn:uuid:`+id+`"`, failure.InvalidUUID)
		with("without hyphens", `"`+strings.ReplaceAll(id, "-", "")+`"`, failure.InvalidUUID)
		with("with a space", `"`+id[:35]+` "`, failure.InvalidUUID)
		with("with a letter too far", `"g`+id[1:]+`"`, failure.InvalidUUID)
		with("too short", `"42"`, failure.InvalidUUID)
		with("one too long", `"`+id+`0"`, failure.InvalidUUID)
	}
	return cases
}

// refusedAmounts is what total_amount must refuse, as a string and, where JSON has such a number, as a number.
func refusedAmounts() (cases []refusedCase) {
	with := func(currency string, reason failure.Reason, amounts ...string) {
		for _, a := range amounts {
			cases = append(cases, refusedCase{currency + " " + a, amountOf(a, currency), reason, ""})
		}
	}
	digits := strings.Repeat("7", 40)
	with("EUR", failure.AmountNotPositive, `0`, `"0"`, `0.00`, `"0.00"`, `-5`, `"-5"`, `-0`, `"-0.01"`, `"-5.00"`)
	with("EUR", failure.InvalidAmount, `""`, `" "`, `"+10"`, `".5"`, `"5."`, `"1e3"`, `1e3`, `1E3`, `1e-2`, `1e20000000`, `"1e20000000"`, `-1e3`, `"NaN"`,
		`"Infinity"`, `" 1"`, `"1 "`, `"1,50"`, `"1.000,00"`, `"007"`, `"--5"`, `"0x10"`, `"1_000"`, `"\u0661"`, `"EUR 5"`, `"null"`)
	with("EUR", failure.AmountTooLarge, digits, `"`+digits+`"`, `"12345678901234567.00"`)
	with("EUR", failure.AmountTooPrecise, `0.999`, `"0.999"`, `"1.000"`)
	with("JPY", failure.AmountTooPrecise, `500.5`, `"500.5"`, `"500.0"`)
	with("KWD", failure.AmountTooPrecise, `18.6001`, `"18.6001"`)
	with("XYZ", failure.UnknownCurrency, `"1.00"`)
	with("eur", failure.UnknownCurrency, `"1.00"`)
	with("EURO", failure.UnknownCurrency, `"1.00"`)
	with(" EUR", failure.UnknownCurrency, `"1.00"`)
	with("XAU", failure.UnknownCurrency, `"1.00"`)
	return cases
}
