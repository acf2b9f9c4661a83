package netcut

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// pair is one connection through a link: the client's half and the server's.
type pair struct {
	link           *Link
	client, server net.Conn
	left           atomic.Int64 // bytes until a Cut
	clientGone     atomic.Bool  // it will send no more; the server may still be thinking
	once           sync.Once
	done           chan struct{} // closed when both halves are
}

// reset ends both halves the hard way.
func (p *pair) reset() {
	p.once.Do(func() {
		close(p.done)
		abort(p.client)
		abort(p.server)
	})
}

// abort closes so that the other side sees RST.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a connection that is gone already needs none
	}
	_ = c.Close()
}

// source reads the next piece that may be passed on.
type source func(r io.Reader) ([]byte, error)

// dialog reads the two directions of one connection; a protocol may look into both.
type dialog struct{ request, answer source }

func rawDialog() dialog { return dialog{raw(), raw()} }

func raw() source {
	buffer := make([]byte, 32<<10)
	return func(r io.Reader) ([]byte, error) {
		n, err := r.Read(buffer)
		if n > 0 {
			return buffer[:n], nil
		}
		return nil, err
	}
}

// pump passes pieces on as the link's fault allows. The end of one direction is passed on as such: what still stands in
// the other one arrives.
func (p *pair) pump(from, to net.Conn, next source, answers bool) {
	for {
		piece, err := next(from)
		if err != nil {
			p.clientGone.CompareAndSwap(false, !answers)
			p.endOf(to, err)
			return
		}
		if !p.allow(len(piece), answers) {
			p.reset()
			return
		}
		if _, err := to.Write(piece); err != nil {
			p.reset()
			return
		}
	}
}

func (p *pair) endOf(to net.Conn, err error) {
	tcp, ok := to.(*net.TCPConn)
	if !errors.Is(err, io.EOF) || !ok || tcp.CloseWrite() != nil {
		p.reset()
	}
}

// allow returns when the piece may pass, or false when the connection is to be reset.
func (p *pair) allow(size int, answers bool) bool {
	for {
		s := p.link.now()
		switch s.fault.Kind {
		case Stall:
			if !p.wait(s, 0) {
				return false
			}
		case HalfOpen:
			if !answers {
				return true
			}
			if !p.wait(s, 0) {
				return false
			}
		case Delay:
			return p.wait(s, s.fault.Delay)
		case Cut:
			return p.left.Add(-int64(size)) >= 0
		default:
			return true
		}
	}
}

// wait is until the fault ends, no longer than d when that is given, and false when the connection is gone.
func (p *pair) wait(s *state, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-s.ended:
	case <-over:
	case <-p.done:
		return false
	}
	return true
}
