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
	p := params{c: c}
	limit := p.limit()
	q := audit.Query{Actor: p.text("actor", legalName, "want the name of a token, such as alice"), From: p.time("from"), To: p.time("to"), Before: p.cursor(), Limit: limit + 1}
	if p.err != nil {
		return nil, p.err
	}
	entries, err := s.audit.List(c.Request().Context(), q)
	if err != nil {
		return nil, err
	}
	return paged(entries, limit, func(e audit.Entry) int64 { return e.ID }, func(e audit.Entry) entryView {
		return entryView{e.ID, e.At.UTC(), e.Actor.Name, e.Actor.Role, e.Action, e.Reason, e.Target, e.RequestID, e.Outcome}
	}), nil
}
