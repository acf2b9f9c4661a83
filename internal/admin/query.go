package admin

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/retry"
)

// param is a parameter of a path or a query. Its value is checked before any handler runs, in the one way that serve has.
type param struct {
	name string
	want string // what is allowed, for the refusal
	read func(text string) (value any, ok bool)
}

func (p param) refuse(what string) error {
	return refuse(http.StatusBadRequest, "%s: %s; want %s", p.name, what, p.want)
}

// The sizes of a page.
const (
	defaultLimit = 100
	maxLimit     = 500
)

// The parameters of all routes.
var (
	dlqTopicParam  = param{"dlq_topic", "the name of a dead-letter topic, such as orders.confirmed.dlq", anyText}
	partitionParam = param{"partition", "a number from 0 to 2147483647", number(0, 1<<31-1)}
	offsetParam    = param{"offset", "a number from 0 to 4611686018427387904", number(0, 1<<62)}
	orderIDParam   = param{"order_id", "a UUID such as 6f1b1f0e-7a6e-4d0b-9a55-3c1f4f6f2b10", readUUID}
	stateParam     = param{"state", "open, replaying, replayed, dropped, resolved or duplicate", oneOf(deadletter.States()...)}
	reasonParam    = param{"reason", "a reason of the closed list, such as provider_5xx", readReason}
	classParam     = param{"class", "invalid, conflict, rejected, declined, exhausted, unknown, stale, bug or poison", readClass}
	fromParam      = param{"from", "a time from 1970 on such as 2026-01-02T15:04:05Z (a + must be written %2B)", readTime}
	toParam        = param{"to", fromParam.want, readTime}
	limitParam     = param{"limit", "a number from 1 to 500", number(1, maxLimit)}
	cursorParam    = param{"cursor", "the next_cursor of the page before, unchanged", readCursor}
	actorParam     = param{"actor", "the name of a token, such as alice", func(v string) (any, bool) { return v, legalName(v) }}
	targetParam    = param{"target_topic", "a topic that replays may go to", anyText}
	dryRunParam    = param{"dry_run", "true or false", func(v string) (any, bool) { return v == "true", v == "true" || v == "false" }}
)

// values are the parameters of one request that were given.
type values map[string]any

const valuesKey = "values"

// valueOf is the value of a parameter, as its read returned it; the zero value when it was not given.
func valueOf[T any](c echo.Context, p param) T {
	given, _ := c.Get(valuesKey).(values) // serve set them
	v, _ := given[p.name].(T)
	return v
}

// readParams takes the parameters of path and query apart. What cannot be parsed, is not known, stands twice or is empty
// is refused: a misspelt word must not turn a dry run into a real one, nor a narrow list into one of everything.
func readParams(c echo.Context, r route) (values, error) {
	read := values{}
	for _, name := range c.ParamNames() {
		if err := read.add(pathParams[name], c.Param(name)); err != nil {
			return nil, err
		}
	}
	return read, read.addQuery(c.Request().URL.RawQuery, r.params)
}

// pathParams are those that stand in a path.
var pathParams = map[string]param{
	dlqTopicParam.name: dlqTopicParam, partitionParam.name: partitionParam, offsetParam.name: offsetParam, orderIDParam.name: orderIDParam,
}

func (v values) addQuery(query string, known []param) error {
	if query == "" {
		return nil
	}
	for part := range strings.SplitSeq(query, "&") {
		name, text, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		at := slices.IndexFunc(known, func(p param) bool { return p.name == name })
		if err != nil || at < 0 || strings.Contains(name, ";") {
			return refuse(http.StatusBadRequest, "the query has an unknown parameter %.40q; %s", name, allowed(known))
		}
		p := known[at]
		if text, err = url.QueryUnescape(text); err != nil || strings.Contains(part, ";") {
			return p.refuse("cannot be parsed (a % that is no escape, or a semicolon)")
		}
		if err := v.add(p, text); err != nil {
			return err
		}
	}
	return nil
}

func (v values) add(p param, text string) error {
	if _, twice := v[p.name]; twice {
		return p.refuse("stands twice")
	}
	if text == "" {
		return p.refuse("is empty")
	}
	value, ok := p.read(text)
	if !ok {
		return p.refuse("is not allowed")
	}
	v[p.name] = value
	return nil
}

func allowed(known []param) string {
	if len(known) == 0 {
		return "this call takes none"
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	return "known: " + strings.Join(names, ", ")
}

func anyText(v string) (any, bool) { return v, true }

// number is a plain decimal: no sign, no leading zero.
func number(low, high int64) func(string) (any, bool) {
	return func(v string) (any, bool) {
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil && n >= low && n <= high && strconv.FormatInt(n, 10) == v
	}
}

func readUUID(v string) (any, bool) {
	id, err := uuid.Parse(v)
	return id, err == nil && len(v) == 36 && id != uuid.Nil
}

func oneOf(all ...deadletter.State) func(string) (any, bool) {
	return func(v string) (any, bool) { return deadletter.State(v), slices.Contains(all, deadletter.State(v)) }
}

func readReason(v string) (any, bool) { return failure.Reason(v), failure.Reason(v).Known() }

func readClass(v string) (any, bool) { return failure.Class(v), retry.KnownClass(failure.Class(v)) }

func readTime(v string) (any, bool) {
	t, err := time.Parse(time.RFC3339, v)
	return t, err == nil && t.Year() >= 1970
}

// readCursor reads the id of the last row of the page before. Its form is nobody's business but ours.
func readCursor(v string) (any, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(v)
	text, ok := strings.CutPrefix(string(raw), "id:")
	id, err2 := strconv.ParseInt(text, 10, 64)
	return id, err == nil && ok && err2 == nil && id >= 1
}

func encodeCursor(id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("id:" + strconv.FormatInt(id, 10)))
}

// pageLimit is how many rows a page has.
func pageLimit(c echo.Context) int {
	if n := valueOf[int64](c, limitParam); n > 0 {
		return int(n)
	}
	return defaultLimit
}

// span is the range of times of a list.
func span(c echo.Context) (begin, end time.Time, err error) {
	begin, end = valueOf[time.Time](c, fromParam), valueOf[time.Time](c, toParam)
	if !begin.IsZero() && !end.IsZero() && !begin.Before(end) {
		err = fromParam.refuse("is not before to")
	}
	return begin, end, err
}
