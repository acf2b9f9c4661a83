package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// readBody reads a JSON object strictly: a name that is misspelt, unknown, in another case or there twice, a null, or
// anything after the object must not turn a narrow call into one of everything. No bytes at all are no body.
func readBody(r io.Reader, into any, want string) (given bool, err error) {
	text, err := io.ReadAll(r)
	if err != nil || len(text) == 0 {
		return false, err
	}
	if at, found := findNull(text); found {
		return false, refuse(http.StatusBadRequest, "%s null; leave it out, or give a value", fieldIs(at))
	}
	if err := json.Unmarshal(text, into, json.RejectUnknownMembers(true)); err != nil {
		return false, refuse(http.StatusBadRequest, "%s; want %s", bodyProblem(err), want)
	}
	return true, nil
}

// findNull is where the first null stands. A text that is no JSON has none: the reading tells what is wrong with it.
func findNull(text []byte) (at jsontext.Pointer, found bool) {
	d := jsontext.NewDecoder(strings.NewReader(string(text)))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return "", false
		}
		if token.Kind() == jsontext.KindNull {
			return d.StackPointer(), true
		}
	}
}

// bodyProblem words an error for the caller, who knows fields and not Go.
func bodyProblem(err error) string {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(e, jsontext.ErrDuplicateName) {
			return fieldIs(e.JSONPointer) + " there twice"
		}
		return fmt.Sprintf("the body is not one JSON object, at byte %d", e.ByteOffset)
	}
	e, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case !ok:
		return "the body cannot be read"
	case errors.Is(e, json.ErrUnknownName):
		return fieldIs(e.JSONPointer) + " not a known field (names are case-sensitive)"
	}
	return fieldIs(e.JSONPointer) + " not " + wanted(e.GoType)
}

// fieldIs begins a sentence about the field at the pointer.
func fieldIs(at jsontext.Pointer) string {
	if at == "" {
		return "the body is"
	}
	return fmt.Sprintf("%.60q is", strings.ReplaceAll(strings.TrimPrefix(string(at), "/"), "/", "."))
}

// wanted is what a field of the type holds.
func wanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "as described"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

const maxReason = 500 // bytes

// checkReason holds for every reason that goes into the audit trail.
func checkReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return refuse(http.StatusUnprocessableEntity, "reason: say why, for the audit trail")
	case len(reason) > maxReason || strings.ContainsFunc(reason, unicode.IsControl):
		return refuse(http.StatusUnprocessableEntity, "reason: want at most %d bytes on one line", maxReason)
	}
	return nil
}
