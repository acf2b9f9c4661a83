package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"example.com/billing/internal/failure"
)

// State is how a part of the service fares.
type State string

// The states. Ready and Paused are well: a person wants the pause, and an orchestrator must not fight it.
const (
	Ready    State = "ready"
	Paused   State = "paused"   // by an operator
	Held     State = "held"     // the line stands until a fault of everyone is cured
	Stopping State = "stopping" // the process ends
	Failed   State = "failed"   // it does not answer or cannot work
	// LeftBehind: orders wait in a topic that no instance reads; all else works.
	LeftBehind State = "left_behind"
	// Unhandled: orders were passed over, since somebody else committed their offsets or they were deleted; all else works.
	Unhandled State = "unhandled"
)

func (s State) well() bool { return s == Ready || s == Paused }

// Health is what a part says of itself.
type Health struct {
	State  State
	Reason failure.Reason // of a hold; of the closed list, so that anyone may see it
	Detail string         // for people with a token: it may name persons and hold what they wrote
}

// Part is one thing that the service cannot work without. Check should heed its context; one that does not counts as
// failed.
type Part struct {
	Name  string
	Check func(ctx context.Context) Health
}

type partState struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// ready asks all parts at the same time. Anyone may ask, and is told names, states and reasons; the details are for those
// who show a token. A wrong token is refused as everywhere else, or it could be guessed here.
func (s *Server) ready(c echo.Context) error {
	detailed := false
	if len(s.cfg.Tokens) > 0 && c.Request().Header.Get(echo.HeaderAuthorization) != "" {
		if _, err := s.authenticate(c); err != nil {
			return err
		}
		detailed = true
	}
	states := s.askParts(c.Request().Context())
	status, whole := http.StatusOK, Ready
	for i := range states {
		if !detailed {
			states[i].Detail = ""
		}
		if whole.well() && states[i].State != Ready {
			whole = states[i].State
		}
		if !states[i].Ready {
			status = http.StatusServiceUnavailable
		}
	}
	return c.JSON(status, map[string]any{"ready": status == http.StatusOK, "state": whole, "parts": states})
}

func (s *Server) askParts(ctx context.Context) []partState {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CheckTimeout)
	defer cancel()
	answers := make([]chan Health, len(s.deps.Parts))
	for i, p := range s.deps.Parts {
		answers[i] = make(chan Health, 1) // a late answer does not block its goroutine
		go func() { answers[i] <- p.Check(ctx) }()
	}
	states := make([]partState, len(answers))
	for i := range answers {
		h := s.wait(ctx, answers[i])
		states[i] = partState{Name: s.deps.Parts[i].Name, Ready: h.State.well(), State: h.State, Reason: string(h.Reason), Detail: h.Detail}
	}
	return states
}

func (s *Server) wait(ctx context.Context, answer <-chan Health) Health {
	select {
	case h := <-answer:
		return h
	case <-ctx.Done():
		return Health{State: Failed, Detail: fmt.Sprintf("no answer within %s", s.cfg.CheckTimeout.Round(time.Millisecond))}
	}
}
