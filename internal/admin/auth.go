package admin

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// authenticate finds who asks. A right token always gets in, so that nobody can lock the operators out by guessing; wrong
// ones get a bounded number of looks and log lines, and guessing a token of 16 characters that way is hopeless.
func (s *Server) authenticate(c echo.Context) (Token, error) {
	scheme, secret, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
	if strings.EqualFold(scheme, "Bearer") {
		if t, ok := find(s.cfg.Tokens, secret); ok {
			return t, nil
		}
	}
	if !s.failures.AllowN(s.deps.Clock(), 1) {
		c.Response().Header().Set(echo.HeaderRetryAfter, "1")
		return Token{}, refuse(http.StatusTooManyRequests, "too many wrong tokens; try again in a second")
	}
	c.Response().Header().Set(echo.HeaderWWWAuthenticate, `Bearer realm="billing"`)
	if secret == "" {
		return Token{}, refuse(http.StatusUnauthorized, "a token is needed: Authorization: Bearer …, one of BILLING_ADMIN_TOKENS")
	}
	s.deps.Log.Warn("admin login failed", "request_id", requestID(c), "remote", c.Request().RemoteAddr, "route", c.Path())
	return Token{}, refuse(http.StatusUnauthorized, "the token is not one of BILLING_ADMIN_TOKENS")
}
