package admin

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
)

// The sizes of a page.
const (
	defaultLimit = 100
	maxLimit     = 500
)

// params reads query and path, and keeps the first problem.
type params struct {
	c   echo.Context
	err error
}

func (p *params) bad(name, want string) {
	if p.err == nil {
		p.err = refuse(http.StatusBadRequest, "%s: %s", name, want)
	}
}

// text is the value, empty when it is not given.
func (p *params) text(name string, known func(string) bool, want string) string {
	v := p.c.QueryParam(name)
	if v != "" && !known(v) {
		p.bad(name, want)
	}
	return v
}

func (p *params) time(name string) time.Time {
	v := p.c.QueryParam(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		p.bad(name, "want a time like 2026-01-02T15:04:05Z (a + must be written %2B)")
	}
	return t
}

func (p *params) uuid(name, value string) uuid.UUID {
	if value == "" {
		return uuid.Nil
	}
	id, err := uuid.Parse(value)
	if err != nil || len(value) != 36 {
		p.bad(name, "want a UUID like 6f1b1f0e-7a6e-4d0b-9a55-3c1f4f6f2b10")
	}
	return id
}

func (p *params) flag(name string) bool {
	switch p.c.QueryParam(name) {
	case "", "false":
		return false
	case "true":
		return true
	}
	p.bad(name, "want true or false")
	return false
}

func (p *params) number(name, value string, low, high int64) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < low || n > high {
		p.bad(name, "want a number from "+strconv.FormatInt(low, 10)+" to "+strconv.FormatInt(high, 10))
	}
	return n
}

func (p *params) limit() int {
	v := p.c.QueryParam("limit")
	if v == "" {
		return defaultLimit
	}
	return int(p.number("limit", v, 1, maxLimit))
}

// cursor is the id of the last row of the page before. Its form is nobody's business but ours.
func (p *params) cursor() int64 {
	v := p.c.QueryParam("cursor")
	if v == "" {
		return 0
	}
	raw, err := base64.RawURLEncoding.DecodeString(v)
	text, ok := strings.CutPrefix(string(raw), "id:")
	id, err2 := strconv.ParseInt(text, 10, 64)
	if err != nil || !ok || err2 != nil || id < 1 {
		p.bad("cursor", "want the next_cursor of the page before, unchanged")
	}
	return id
}

func encodeCursor(id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("id:" + strconv.FormatInt(id, 10)))
}

// page is one part of a list.
type page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null: the last page
}

// paged cuts rows, of which one more than the limit was asked for, to a page.
func paged[R, T any](rows []R, limit int, id func(R) int64, view func(R) T) page[T] {
	p := page[T]{Data: []T{}}
	for i, r := range rows {
		if i == limit {
			next := encodeCursor(id(rows[i-1]))
			p.NextCursor = &next
			break
		}
		p.Data = append(p.Data, view(r))
	}
	return p
}
