package orders

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/billing/internal/failure"
)

// document is a value that was proven to be one JSON object without duplicate keys, and where the known fields stand in it.
// Nothing is looked at before the whole text is proven: what a broken text seems to say is not evidence.
type document struct {
	fields
	value []byte
}

// fields is what is known of an event's JSON. Keys are compared exactly.
type fields struct {
	EventID     field `json:"event_id"`
	OrderID     field `json:"order_id"`
	CustomerID  field `json:"customer_id"`
	TotalAmount field `json:"total_amount"`
	Currency    field `json:"currency"`
}

// field is the place of a value. Its zero value is a field that does not stand in the event.
type field struct {
	kind       jsontext.Kind
	start, end int
}

// UnmarshalJSONFrom notes where the next value stands.
func (f *field) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	end := int(dec.InputOffset())
	*f = field{kind: raw.Kind(), start: end - len(raw), end: end}
	return nil
}

func (f field) absent() bool { return f.kind == jsontext.KindInvalid }

func (d document) raw(f field) []byte { return d.value[f.start:f.end] }

// parse proves the value to its end. Memory is bounded by the text, and the library's limit of 10,000 levels bounds the stack.
func parse(value []byte) (document, error) {
	d := document{value: value}
	kind := jsontext.Value(value).Kind()
	var target any = &d.fields
	if kind != jsontext.KindBeginObject {
		target = new(field) // read to its end as well: text that only starts like JSON is not JSON of another shape
	}
	err := json.Unmarshal(value, target)
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return d, refuse(value, syntax)
	}
	if kind != jsontext.KindBeginObject {
		return d, failure.New(failure.WrongShape, "the value is %s, want an object", shape(kind))
	}
	return d, err
}

// shape is what a kind of JSON value is called.
func shape(k jsontext.Kind) string {
	switch k {
	case jsontext.KindBeginObject:
		return "a JSON object"
	case jsontext.KindBeginArray:
		return "a JSON array"
	default:
		return "a JSON " + k.String()
	}
}

// tooDeep is the text of the one error of jsontext that has no name.
const tooDeep = "exceeded max depth"

// refuse gives a text that is not acceptable JSON its reason. The library's own message is not passed on as a whole: it shows
// the path to the mistake, and keys may be a customer's words.
func refuse(value []byte, e *jsontext.SyntacticError) error {
	at := min(int(e.ByteOffset), len(value))
	switch {
	case errors.Is(e, jsontext.ErrDuplicateName):
		return failure.New(failure.DuplicateField, "%s stands twice in one object, again at byte %d", knownName(e.JSONPointer), at)
	case !utf8.Valid(value):
		return failure.New(failure.InvalidUTF8, "not UTF-8 at byte %d", invalidUTF8(value))
	case surrogate(value[at:]):
		return failure.New(failure.InvalidUTF8, "half of a surrogate pair at byte %d", at)
	case e.Err.Error() == tooDeep:
		return failure.New(failure.WrongShape, "nested deeper than 10,000 levels at byte %d", at)
	default:
		return failure.New(failure.NotJSON, "%s, at byte %d of %d", syntaxProblem(e.Err), at, len(value))
	}
}

// syntaxProblem words what is wrong: the library's own text quotes characters of the value.
func syntaxProblem(err error) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the text ends before the value does"
	case strings.Contains(err.Error(), "after top-level value"):
		return "the text goes on after the value"
	}
	return "a character that JSON does not allow there"
}

// knownName is the key at a pointer's end when it is one of ours.
func knownName(p jsontext.Pointer) string {
	switch p {
	case "/event_id", "/order_id", "/customer_id", "/total_amount", "/currency":
		return p.LastToken()
	}
	return "a key"
}

func invalidUTF8(value []byte) int {
	at := 0
	for {
		r, size := utf8.DecodeRune(value[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
}

// surrogate reports whether the text starts with the escape of a surrogate half, such as \ud800.
func surrogate(text []byte) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return false
	}
	half, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return err == nil && utf16.IsSurrogate(rune(half))
}

// escapedNUL is the place of the first \u0000 in a JSON text, or -1. A NUL that is not escaped is not JSON.
func escapedNUL(value []byte) int {
	escape := []byte(`\u0000`)
	for from := 0; ; {
		i := bytes.Index(value[from:], escape)
		if i < 0 {
			return -1
		}
		at := from + i
		before := value[:at]
		if backslashes := len(before) - len(bytes.TrimRight(before, `\`)); backslashes%2 == 0 {
			return at
		}
		from = at + len(escape) // the backslash itself was escaped
	}
}
