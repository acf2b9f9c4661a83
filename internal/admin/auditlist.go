package admin

import (
	"time"

	"github.com/labstack/echo/v4"

	"example.com/billing/internal/audit"
)

type entryView struct {
	ID        int64     `json:"id"`
	At        time.Time `json:"at"`
	Actor     string    `json:"actor"`
	Role      string    `json:"role"`
	Action    string    `json:"action"`
	Reason    string    `json:"reason"`
	Target    any       `json:"target"`
	RequestID string    `json:"request_id"`
	Outcome   string    `json:"outcome"`
}

// listAudit answers GET /admin/audit.
func (s *Server) listAudit(c echo.Context, _ Token) (any, error) {
	begin, end, err := span(c)
	if err != nil {
		return nil, err
	}
	limit := pageLimit(c)
	entries, err := s.audit.List(c.Request().Context(), audit.Query{
		Actor: valueOf[string](c, actorParam), From: begin, To: end, Before: valueOf[int64](c, cursorParam), Limit: limit + 1,
	})
	if err != nil {
		return nil, err
	}
	return paged(entries, limit, func(e audit.Entry) int64 { return e.ID }, func(e audit.Entry) entryView {
		return entryView{e.ID, e.At.UTC(), e.Actor.Name, e.Actor.Role, e.Action, e.Reason, e.Target, e.RequestID, e.Outcome}
	}), nil
}
