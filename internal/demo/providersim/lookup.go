package providersim

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// list serves GET /v1/charges: of one order, or of a span of time.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.lookups.Add(1)
	q := r.URL.Query()
	switch {
	case q.Has("reference"):
		if s.outage().kind == Unsure {
			writeJSON(w, http.StatusOK, map[string]any{"data": []*Charge{}, "consistent": false})
			return
		}
		found := s.book.ofOrder(q.Get("reference"), s.cfg.Clock().Add(-s.cfg.LookupLag))
		writeJSON(w, http.StatusOK, map[string]any{"data": found, "consistent": s.cfg.LookupLag == 0})
	case q.Has("from") && q.Has("to"):
		s.span(w, q)
	default:
		s.problem(w, http.StatusBadRequest, "invalid_request")
	}
}

func (s *Server) span(w http.ResponseWriter, q url.Values) {
	from, err1 := time.Parse(time.RFC3339, q.Get("from"))
	to, err2 := time.Parse(time.RFC3339, q.Get("to"))
	limit, place := 100, 0
	var err3, err4 error
	if q.Has("limit") {
		limit, err3 = strconv.Atoi(q.Get("limit"))
	}
	if q.Has("cursor") {
		place, err4 = placeOf(q.Get("cursor"))
	}
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || limit < 1 || limit > 1000 || place < 0 {
		s.problem(w, http.StatusBadRequest, "invalid_request")
		return
	}
	page, next := s.book.between(from, to, place, limit)
	writeJSON(w, http.StatusOK, map[string]any{"data": page, "next_cursor": cursorOf(next)})
}

// cursorOf hides a place in the journal, which never changes; nil at the end.
func cursorOf(place int) any {
	if place == 0 {
		return nil
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(place)))
}

func placeOf(cursor string) (int, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// byID serves GET /v1/charges/{id}.
func (s *Server) byID(w http.ResponseWriter, r *http.Request) {
	s.lookups.Add(1)
	if c := s.book.byID(r.PathValue("id")); c != nil {
		writeJSON(w, http.StatusOK, c)
		return
	}
	s.problem(w, http.StatusNotFound, "not_found")
}
