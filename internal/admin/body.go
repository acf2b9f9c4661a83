package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode"
)

// readBody reads a body strictly: a misspelt or unknown field must not turn a narrow call into one of everything. It
// reports whether there was one.
func readBody(r io.Reader, into any, want string) (given bool, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return false, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return false, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return false, refuse(http.StatusBadRequest, "the body is not %s: %s", want, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return false, refuse(http.StatusBadRequest, "the body goes on after its JSON object")
	}
	return true, nil
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
