// Package netcut stands between a client and a server and breaks the network between them: it refuses, stalls, loses
// answers, slows down, and cuts in the middle.
//
// It promises that a link without a fault passes every byte, and that what a stall held back arrives late, as on a real
// network, not never. It decides nothing by itself: the fault is set from outside.
package netcut

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Kind of a fault.
type Kind string

// The faults. A link begins with None.
const (
	None     Kind = "none"
	Refuse   Kind = "refuse"    // nobody listens, and open connections are reset
	Stall    Kind = "stall"     // both directions stand still; what was sent arrives when that ends
	HalfOpen Kind = "half-open" // requests pass, answers stand still
	Delay    Kind = "delay"     // every piece comes later
	Cut      Kind = "cut"       // each connection is reset after some bytes more
)

// Kinds lists the faults.
func Kinds() []Kind { return []Kind{Refuse, Stall, HalfOpen, Delay, Cut} }

// Fault is what is wrong with a link.
type Fault struct {
	Kind  Kind
	Delay time.Duration // of Delay
	Bytes int           // of Cut
}

// state is a fault and the news that it has ended.
type state struct {
	fault Fault
	ended chan struct{}
}

// Link listens on the loopback address and passes connections on to one target.
type Link struct {
	Addr   string // where it listens, for good
	target string
	dialog func() dialog

	mu       sync.Mutex
	state    *state
	listener net.Listener // nil while it refuses
	conns    map[*pair]bool
	closed   bool
	wg       sync.WaitGroup
}

// Open makes a link to a target that passes bytes as they come.
func Open(target string) (*Link, error) { return open(target, rawDialog) }

func open(target string, d func() dialog) (*Link, error) {
	l := &Link{Addr: "127.0.0.1:0", target: target, dialog: d, state: &state{Fault{Kind: None}, make(chan struct{})}, conns: map[*pair]bool{}}
	return l, l.listen()
}

// listen is called with l.mu held, or before anybody else knows the link.
func (l *Link) listen() error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", l.Addr)
	if err != nil {
		return fmt.Errorf("link to %s: %w", l.target, err)
	}
	l.Addr, l.listener = listener.Addr().String(), listener
	l.wg.Go(func() { l.accept(listener) })
	return nil
}

func (l *Link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed: by Set or by Close
		}
		l.wg.Go(func() { l.serve(client) })
	}
}

// Set replaces the fault, for connections that are open and for those to come.
func (l *Link) Set(f Fault) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.New("netcut: the link is closed")
	}
	close(l.state.ended)
	l.state = &state{f, make(chan struct{})}
	for p := range l.conns {
		p.left.Store(int64(f.Bytes))
	}
	if f.Kind == Refuse {
		l.hangUp()
	} else if l.listener == nil {
		return l.listen()
	}
	return nil
}

// hangUp stops listening and resets what is open. Called with l.mu held.
func (l *Link) hangUp() {
	if l.listener != nil {
		_ = l.listener.Close() // nothing is lost with it
		l.listener = nil
	}
	for p := range l.conns {
		p.reset()
	}
}

// Connections is the number of those whose client is still there.
func (l *Link) Connections() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.conns {
		if !p.clientGone.Load() {
			n++
		}
	}
	return n
}

// Close ends the link and its connections.
func (l *Link) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.state.ended)
		l.hangUp()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *Link) now() *state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// serve pumps both directions until one of them ends.
func (l *Link) serve(client net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp4", l.target)
	if err != nil {
		abort(client)
		return
	}
	p := &pair{link: l, client: client, server: server, done: make(chan struct{})}
	if !l.add(p) {
		p.reset()
		return
	}
	defer l.remove(p)
	d := l.dialog()
	var both sync.WaitGroup
	both.Go(func() { p.pump(client, server, d.request, false) })
	both.Go(func() { p.pump(server, client, d.answer, true) })
	both.Wait()
	p.reset()
}

// add counts the connection in, unless the link went away while it was dialled.
func (l *Link) add(p *pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return false
	}
	p.left.Store(int64(l.state.fault.Bytes))
	l.conns[p] = true
	return true
}

func (l *Link) remove(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, p)
}
