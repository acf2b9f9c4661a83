package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"example.com/billing/internal/failure"
)

// maxBody bounds what a request may carry.
const maxBody = 1 << 20

// route is one call of the admin API. Its handler returns what becomes the JSON answer.
type route struct {
	method string
	path   string
	role   Role
	params []param // of the query
	handle func(c echo.Context, by Token) (any, error)
}

func (s *Server) routes() []route {
	return []route{
		{http.MethodGet, "/admin/openapi.json", Viewer, nil, openAPI},
		{http.MethodGet, "/admin/dlq", Viewer, nil, s.listTopics},
		{http.MethodGet, "/admin/dlq/:dlq_topic/messages", Viewer, []param{stateParam, reasonParam, classParam, orderIDParam, fromParam, toParam, limitParam, cursorParam}, s.listLetters},
		{http.MethodGet, "/admin/dlq/:dlq_topic/messages/:partition/:offset", Viewer, nil, s.showLetter},
		{http.MethodPost, "/admin/dlq/:dlq_topic/replay", Operator, []param{targetParam, dryRunParam}, s.replay},
		{http.MethodPost, "/admin/consumption/pause", Operator, nil, s.pause},
		{http.MethodPost, "/admin/consumption/resume", Operator, nil, s.resume},
		{http.MethodPost, "/admin/consumption/accept", Operator, nil, s.accept},
		{http.MethodGet, "/admin/orders/:order_id", Viewer, nil, s.explain},
		{http.MethodGet, "/admin/audit", Viewer, []param{actorParam, fromParam, toParam, limitParam, cursorParam}, s.listAudit},
	}
}

// register wires everything. Without tokens the admin routes do not exist.
func (s *Server) register() {
	s.echo.HTTPErrorHandler = s.answerProblem
	s.echo.Use(guard)
	s.echo.GET("/healthz", func(c echo.Context) error { return c.JSON(http.StatusOK, map[string]string{"status": "ok"}) })
	s.echo.GET("/readyz", s.ready)
	if s.cfg.PrivateAddr == "" {
		s.echo.GET("/metrics", echo.WrapHandler(s.metrics()))
	}
	if len(s.cfg.Tokens) == 0 {
		return
	}
	for _, r := range s.routes() {
		s.echo.Add(r.method, r.path, s.serve(r))
	}
}

// serve is what happens around each call: who asks, may they, is every parameter known, was it answered before.
func (s *Server) serve(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		by, err := s.authenticate(c)
		if err != nil {
			return err
		}
		if by.Role < r.role {
			return refuse(http.StatusForbidden, "%s is a %s; this needs the role %s", by.Name, by.Role, r.role)
		}
		given, err := readParams(c, r)
		if err != nil {
			return err
		}
		c.Set(valuesKey, given)
		if r.method != http.MethodGet {
			return s.serveOnce(c, r, by)
		}
		answer, err := r.handle(c, by)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, answer)
	}
}

// serveOnce answers an unsafe call, and the same call under the same Idempotency-Key with the same answer.
func (s *Server) serveOnce(c echo.Context, r route, by Token) error {
	call, err := readCall(c, by)
	if err != nil {
		return err
	}
	if stored, err := s.answers.begin(c.Request().Context(), &call); err != nil {
		return err
	} else if stored != nil {
		c.Response().Header().Set("Idempotent-Replayed", "true")
		return c.JSONBlob(http.StatusOK, stored)
	}
	c.Set(callKey, call.id)
	stop := s.answers.renew(c.Request().Context(), call)
	answer, err := r.handle(c, by)
	stop()
	if err != nil {
		return s.answers.failed(c.Request().Context(), call, err)
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if err := s.answers.keep(c.Request().Context(), call, body); err != nil {
		s.deps.Log.Error("answer not kept: the same call again will be done again", "request_id", requestID(c), "error", err)
	}
	return c.JSONBlob(http.StatusOK, body)
}

// guard is what holds for every request, whatever it asks for.
func guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %w\n%s", failure.Recovered(v), debug.Stack())
			}
		}()
		h := c.Response().Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set(echo.HeaderXRequestID, givenID(c.Request().Header.Get(echo.HeaderXRequestID)))
		c.Response().Before(func() { allowHead(h) })
		if err := refuseTwice(c.Request().Header); err != nil {
			return err
		}
		if c.Request().ContentLength > maxBody {
			return &http.MaxBytesError{Limit: maxBody}
		}
		c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, maxBody)
		return next(c)
	}
}

// refuseTwice: of two values one would win in silence, and a proxy on the way may have looked at the other one.
func refuseTwice(h http.Header) error {
	for _, name := range []string{echo.HeaderAuthorization, idempotencyKey, echo.HeaderContentType} {
		if len(h.Values(name)) > 1 {
			return refuse(http.StatusBadRequest, "%s stands twice; want one", name)
		}
	}
	return nil
}

// allowHead: the router does not know that HEAD is answered as GET.
func allowHead(h http.Header) {
	if methods := h.Get(echo.HeaderAllow); strings.Contains(methods, http.MethodGet) {
		h.Set(echo.HeaderAllow, methods+", "+http.MethodHead)
	}
}

// givenID is the caller's request id if it can stand in a log line as it is, else a new one.
func givenID(id string) string {
	const legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if id == "" || len(id) > 64 || strings.Trim(id, legal) != "" {
		return uuid.NewString()
	}
	return id
}

func requestID(c echo.Context) string { return c.Response().Header().Get(echo.HeaderXRequestID) }
