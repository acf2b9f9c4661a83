package e2e

import (
	"net"
	"net/http"
	"time"
)

// answer is what the provider does with one request.
type answer func(x *exchange)

// moneyMoves is the good answer: 201, or 200 when the key was charged before.
func moneyMoves(x *exchange) {
	c, again := x.p.move(x)
	if again {
		x.w.Header().Set("Idempotent-Replayed", "true")
		answerJSON(x.w, http.StatusOK, c)
		return
	}
	answerJSON(x.w, http.StatusCreated, c)
}

// moneyMovesThen moves the money and then does not say so.
func moneyMovesThen(a answer) answer {
	return func(x *exchange) {
		x.p.move(x)
		a(x)
	}
}

// refuses answers with a problem. Headers are given as name, value, …
func refuses(status int, code string, headers ...string) answer {
	return func(x *exchange) {
		for i := 0; i < len(headers); i += 2 {
			x.w.Header().Set(headers[i], headers[i+1])
		}
		x.w.Header().Set("Content-Type", "application/problem+json")
		answerJSON(x.w, status, map[string]string{"title": http.StatusText(status), "code": code})
	}
}

// says answers with any body.
func says(status int, body string) answer {
	return func(x *exchange) {
		x.w.WriteHeader(status)
		_, _ = x.w.Write([]byte(body)) // the client may have gone
	}
}

// claims answers 201 with a charge that is changed, and moves no money.
func claims(change func(*charge)) answer {
	return func(x *exchange) {
		c := x.asked
		c.ID, c.Status, c.CreatedAt = "ch_other", "succeeded", "2026-01-02T15:04:05.123Z"
		change(&c)
		answerJSON(x.w, http.StatusCreated, c)
	}
}

// hangs until the client gives up.
func hangs(x *exchange) { <-x.r.Context().Done() }

// breaksOff resets the connection after it has read the request.
func breaksOff(x *exchange) {
	conn := hijacked(x)
	_ = conn.(*net.TCPConn).SetLinger(0) // the close is a reset then
	_ = conn.Close()
}

// breaksOffInside ends the answer in the middle of its body.
func breaksOffInside(x *exchange) {
	conn := hijacked(x)
	_, _ = conn.Write([]byte("HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"id\":\"ch_"))
	_ = conn.Close()
}

func hijacked(x *exchange) net.Conn {
	conn, _, err := x.w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err) // HTTP/1.1 can always be taken over
	}
	return conn
}

// after waits for the signal first, unless the client gives up.
func after(signal <-chan struct{}, a answer) answer {
	return func(x *exchange) {
		select {
		case <-signal:
			a(x)
		case <-x.r.Context().Done():
		}
	}
}

// late takes its time.
func late(d time.Duration, a answer) answer {
	return func(x *exchange) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			a(x)
		case <-x.r.Context().Done():
		}
	}
}
