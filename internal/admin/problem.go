package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/labstack/echo/v4"

	"example.com/billing/internal/deadletter"
)

// problem is an error as RFC 9457 writes it: what, where, and what to do. Nothing internal stands in it.
type problem struct {
	Status    int      `json:"status"`
	Title     string   `json:"title"`
	Detail    string   `json:"detail"`
	Allowed   []string `json:"allowed,omitempty"`
	RequestID string   `json:"request_id"`

	cause error // logged, never shown
}

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

func (p *problem) Unwrap() error { return p.cause }

func refuse(status int, format string, args ...any) *problem {
	return &problem{Status: status, Title: http.StatusText(status), Detail: fmt.Sprintf(format, args...)}
}

// asProblem is the one map from errors to answers.
func asProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*deadletter.TopicError](err); ok {
		return refuse(http.StatusNotFound, "%v; GET /admin/dlq lists the dead-letter topics", e)
	}
	if e, ok := errors.AsType[*deadletter.TargetError](err); ok {
		p := refuse(http.StatusUnprocessableEntity, "target_topic: %v", e)
		p.Allowed = e.Allowed
		return p
	}
	if e, ok := errors.AsType[*deadletter.HeldError](err); ok {
		return refuse(http.StatusConflict, "%v; nothing was sent. GET /readyz tells more. \"while_held\": true in the body sends all the same", e)
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", e.Limit)
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok && e.Code < http.StatusInternalServerError {
		return ofRouter(e)
	}
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		return refuse(http.StatusNotFound, "there is no such dead letter; one that died this second may not be listed yet")
	case errors.Is(err, deadletter.ErrBehind):
		p := refuse(http.StatusServiceUnavailable, "the working list has not caught up with the dead-letter topic; nothing was replayed, try again in some seconds")
		p.cause = err
		return p
	case errors.Is(err, context.Canceled):
		return refuse(http.StatusServiceUnavailable, "the caller went away before the answer")
	case errors.Is(err, context.DeadlineExceeded), isConnectError(err):
		p := refuse(http.StatusServiceUnavailable, "the database or the broker did not answer in time; GET /readyz tells which, then try again")
		p.cause = err
		return p
	}
	p := refuse(http.StatusInternalServerError, "something failed inside; the log has the cause under the request id")
	p.cause = err
	return p
}

// isConnectError reports that the database cannot be reached.
func isConnectError(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// ofRouter words what the router says.
func ofRouter(e *echo.HTTPError) *problem {
	switch e.Code {
	case http.StatusNotFound:
		return refuse(e.Code, "there is nothing at this address; /admin/openapi.json describes what there is")
	case http.StatusMethodNotAllowed:
		return refuse(e.Code, "this address does not take this method; /admin/openapi.json describes what it takes")
	}
	return refuse(e.Code, "%v", e.Message)
}

// answerProblem is the server's error handler: log once, answer once.
func (s *Server) answerProblem(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p := *asProblem(err)
	p.RequestID = requestID(c)
	if p.cause != nil {
		s.deps.Log.Error("admin request failed", "request_id", p.RequestID, "route", c.Path(), "status", p.Status, "error", p.cause)
	}
	body, err := json.Marshal(p)
	if err == nil {
		err = c.Blob(p.Status, "application/problem+json", body)
	}
	if err != nil {
		s.deps.Log.Debug("admin answer not written", "request_id", p.RequestID, "error", err)
	}
}
