package httpprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// object reads exactly one JSON object whose names are case-sensitive and stand once. Decoded into a struct, "Amount"
// would pass for "amount" and the last of two would win. encoding/json checks the grammar; what is left is to find where
// names and values end, at a tenth of what its tokens cost.
func object(data []byte) (map[string]json.RawMessage, error) {
	rest := bytes.TrimLeft(data, space)
	if !json.Valid(data) || rest[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	fields := make(map[string]json.RawMessage, 8)
	rest = bytes.TrimLeft(rest[1:], space)
	for rest[0] != '}' {
		end := endOfString(rest)
		name := text(rest[:end])
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the field %s stands twice", printable(name, 20))
		}
		rest = bytes.TrimLeft(rest[end:], space+":")
		end = endOfValue(rest)
		fields[name] = rest[:end]
		rest = bytes.TrimLeft(rest[end:], space+",")
	}
	return fields, nil
}

const space = " \t\r\n"

// endOfValue is where the value at the start of valid JSON ends.
func endOfValue(b []byte) int {
	for depth, i := 0, 0; ; {
		switch b[i] {
		case '"':
			i += endOfString(b[i:])
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
		default: // number, true, false, null
			i += bytes.IndexAny(b[i:], space+",]}") // an object around it ends it
		}
		if depth == 0 {
			return i
		}
	}
}

// endOfString is where the string at the start of valid JSON ends.
func endOfString(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// text is the value of a JSON string, "" for anything else.
func text(raw json.RawMessage) string {
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
