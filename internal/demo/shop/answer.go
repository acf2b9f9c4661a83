package shop

import (
	"encoding/json"
	"errors"
	"net/http"
)

// problem is an error reply, RFC 9457. Without a type it is about:blank: the status says what it is.
type problem struct {
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []fieldError `json:"errors,omitempty"`
}

type fieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// unavailable says nothing about what failed: the log does.
var unavailable = problem{Title: "The order was not taken", Status: http.StatusServiceUnavailable,
	Detail: "The broker did not acknowledge the order in time. It may have arrived: send it again with the same Idempotency-Key header."}

func invalid(errs []fieldError) *problem {
	return &problem{Title: "The order is not valid", Status: http.StatusUnprocessableEntity, Detail: "Correct the fields under errors.", Errors: errs}
}

func unreadable(err error) *problem {
	p := &problem{Title: "The request cannot be read", Status: http.StatusBadRequest, Detail: "Want a JSON object with customer_id, total_amount and, if need be, currency: " + err.Error()}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p.Status = http.StatusRequestEntityTooLarge
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return invalid([]fieldError{{Field: wrong.Field, Detail: "is a JSON " + wrong.Value + ", want a " + wrong.Type.String()}})
	}
	return p
}

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	send(w, p.Status, p)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	send(w, status, body)
}

func send(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone; there is nobody to tell
}
