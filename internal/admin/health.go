package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// Part is one thing that the service cannot work without. Check says whether it works and, if not, why, in words that
// may be shown to anyone. It should heed its context; one that does not counts as failed.
type Part struct {
	Name  string
	Check func(ctx context.Context) (ok bool, reason string)
}

type partState struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// ready asks all parts at the same time.
func (s *Server) ready(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.CheckTimeout)
	defer cancel()
	answers := make([]chan partState, len(s.deps.Parts))
	for i, p := range s.deps.Parts {
		answers[i] = make(chan partState, 1) // a late answer does not block its goroutine
		go func() {
			ok, reason := p.Check(ctx)
			answers[i] <- partState{p.Name, ok, reason}
		}()
	}
	status, states := http.StatusOK, make([]partState, len(answers))
	for i := range answers {
		states[i] = s.wait(ctx, s.deps.Parts[i].Name, answers[i])
		if !states[i].Ready {
			status = http.StatusServiceUnavailable
		}
	}
	return c.JSON(status, map[string]any{"ready": status == http.StatusOK, "parts": states})
}

func (s *Server) wait(ctx context.Context, name string, answer <-chan partState) partState {
	select {
	case state := <-answer:
		return state
	case <-ctx.Done():
		return partState{Name: name, Reason: fmt.Sprintf("no answer within %s", s.cfg.CheckTimeout.Round(time.Millisecond))}
	}
}
