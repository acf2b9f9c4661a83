package providersim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// codes are the contract's words for what refuses a charge.
var codes = map[int]string{
	http.StatusServiceUnavailable: "unavailable", http.StatusInternalServerError: "internal",
	http.StatusTooManyRequests: "too_many_requests", http.StatusBadRequest: "invalid_request",
	http.StatusUnauthorized: "unauthorized", http.StatusNotFound: "not_found",
	http.StatusConflict: "idempotency_key_in_use", http.StatusUnprocessableEntity: "idempotency_key_reused",
}

// misbehave answers with a fault that moves no money.
func (s *Server) misbehave(w http.ResponseWriter, r *http.Request, k Kind) {
	switch k {
	case Status500:
		s.problem(w, http.StatusInternalServerError, "internal")
	case Redirect:
		s.count("302")
		w.Header().Set("Location", "/healthz") // whose 200 is no success
		w.WriteHeader(http.StatusFound)
	case ResetBefore:
		s.reset(w)
	case Hang:
		s.hang(r)
	case Busy:
		s.busy(w, r)
	default:
		status, _ := k.status()
		if k == Page(status) {
			s.page(w, status)
			return
		}
		s.problem(w, status, cmp.Or(codes[status], "outage"))
	}
}

// answer tells of a charge, or fails to.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, status int, c *Charge, fate Kind) {
	switch fate {
	case Status500After:
		s.problem(w, http.StatusInternalServerError, "internal")
	case ResetAfter:
		s.reset(w)
	case HangAfter:
		s.hang(r)
	case Garbage:
		s.count(string(Garbage))
		_, _ = io.WriteString(w, "<html>all good</html>")
	case Truncated:
		s.count(string(Truncated))
		w.Header().Set("Content-Length", "500")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"id":"ch_`)
	case OtherAmount:
		other := *c
		other.Amount = "1" + c.Amount
		s.charged(w, status, &other)
	default:
		s.charged(w, status, c)
	}
}

func (s *Server) charged(w http.ResponseWriter, status int, c *Charge) {
	s.count(strconv.Itoa(status))
	if status == http.StatusOK {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	writeJSON(w, status, c)
}

// problem answers as RFC 9457 has it, with the contract's member "code".
func (s *Server) problem(w http.ResponseWriter, status int, code string) {
	s.count(strconv.Itoa(status))
	w.Header().Set("Content-Type", "application/problem+json")
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"type":"about:blank","title":%q,"status":%d,"code":%q}`,
		cmp.Or(http.StatusText(status), "Unassigned"), status, code)
}

// reset breaks the connection so that the other side sees RST.
func (s *Server) reset(w http.ResponseWriter) {
	s.count("reset")
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the nearest thing to it
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// hang answers nothing while the client waits. That the client has gone shows only once its body is read.
func (s *Server) hang(r *http.Request) {
	s.count("hang")
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxBody+1))
	select {
	case <-r.Context().Done():
	case <-s.closed:
	}
	panic(http.ErrAbortHandler) // no 200 at the end of it
}

func (s *Server) count(label string) {
	s.mu.Lock()
	s.statuses[label]++
	s.mu.Unlock()
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // nothing that is answered with can fail to encode
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone is not our error
}
