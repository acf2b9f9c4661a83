package admin

import (
	"time"

	"github.com/labstack/echo/v4"

	"example.com/billing/internal/fleet"
)

// consumptionView is the operator's switch as it stands after a call. By, reason and since are of the one who paused.
type consumptionView struct {
	Paused bool       `json:"paused"`
	By     *string    `json:"by"`
	Reason *string    `json:"reason"`
	Since  *time.Time `json:"since"`
}

// pause answers POST /admin/consumption/pause.
func (s *Server) pause(c echo.Context, by Token) (any, error) { return s.turn(c, by, true) }

// resume answers POST /admin/consumption/resume.
func (s *Server) resume(c echo.Context, by Token) (any, error) { return s.turn(c, by, false) }

func (s *Server) turn(c echo.Context, by Token, on bool) (any, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	if _, err := readBody(c.Request().Body, &body, `{"reason"}`); err != nil {
		return nil, err
	}
	if err := checkReason(body.Reason); err != nil {
		return nil, err
	}
	p, err := s.consumption.Turn(c.Request().Context(), fleet.Order{On: on, By: by.actor(), Reason: body.Reason, RequestID: requestID(c)})
	if err != nil {
		return nil, err
	}
	if p == nil {
		return consumptionView{}, nil
	}
	since := p.Since.UTC()
	return consumptionView{Paused: true, By: &p.By, Reason: &p.Reason, Since: &since}, nil
}
