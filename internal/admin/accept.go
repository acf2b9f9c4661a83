package admin

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/fleet"
)

// maxAccept bounds one call; more are let go by more calls.
const maxAccept = 1_000_000

// acceptView is what may still die in the flood for the reason code.
type acceptView struct {
	ReasonCode failure.Reason `json:"reason_code"`
	Remaining  int64          `json:"remaining"`
}

// accept answers POST /admin/consumption/accept: in a flood of dead letters it lets so many go for one reason (hazard H25).
func (s *Server) accept(c echo.Context, by Token) (any, error) {
	var body struct {
		Reason     string         `json:"reason"`
		ReasonCode failure.Reason `json:"reason_code"`
		Count      int64          `json:"count"`
	}
	if _, err := readBody(c.Request().Body, &body, `{"reason", "reason_code", "count"}`); err != nil {
		return nil, err
	}
	if err := checkReason(body.Reason); err != nil {
		return nil, err
	}
	if !body.ReasonCode.Known() {
		return nil, refuse(http.StatusUnprocessableEntity, "reason_code: %.40q is not on the list of docs/reasons.md; /readyz names those that wait", body.ReasonCode)
	}
	if body.Count < 1 || body.Count > maxAccept {
		return nil, refuse(http.StatusUnprocessableEntity, "count: want 1 to %d", maxAccept)
	}
	remaining, err := s.consumption.Accept(c.Request().Context(), fleet.Acceptance{
		Code: body.ReasonCode, Count: body.Count, By: by.actor(), Reason: body.Reason, RequestID: requestID(c),
	})
	if errors.Is(err, fleet.ErrNoFlood) {
		return nil, refuse(http.StatusConflict, "no dead letters are withheld: there is nothing to accept")
	}
	if err != nil {
		return nil, err
	}
	return acceptView{body.ReasonCode, remaining}, nil
}
