package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"example.com/billing/internal/demo/broker"
)

// Broker is one embedded broker in a child process, which can be killed; what it acknowledged is on its disk.
type Broker struct {
	Addr string

	dir string
	log string
	p   *Process
}

// StartBroker starts this program again as the broker, which Main sees to.
func StartBroker(dir string) (*Broker, error) {
	addr, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	b := &Broker{Addr: addr, dir: filepath.Join(dir, "kafka"), log: filepath.Join(dir, "broker.log")}
	if err := b.Restart(); err != nil {
		return nil, err
	}
	return b, nil
}

// FreeAddress asks the kernel. Another process could take it before its owner does; that one then fails and says so.
func FreeAddress() (string, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Restart starts the broker on its address and its data.
func (b *Broker) Restart() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if b.p, err = Launch(b.log, os.Environ(), self, "broker", b.dir, b.Addr); err != nil {
		return err
	}
	return b.p.Listens(b.Addr)
}

// Listens waits until the process does.
func (p *Process) Listens(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp4", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody listens on %s, see %s: %w", addr, p.Log, err)
		case <-p.exited:
			return fmt.Errorf("it ended at its start, see %s", p.Log)
		case <-tick.C:
		}
	}
}

// Kill ends the broker as a power cut would.
func (b *Broker) Kill() { b.p.Kill() }

// Freeze stops it without an end.
func (b *Broker) Freeze() { b.p.Signal(syscall.SIGSTOP) }

// Thaw lets it run on.
func (b *Broker) Thaw() { b.p.Signal(syscall.SIGCONT) }

// runBroker is the child process; args are DIR ADDRESS.
func runBroker(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: broker DIR ADDRESS")
	}
	_, text, err := net.SplitHostPort(args[1])
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	b, err := broker.Start(args[0], port)
	if err != nil {
		return err
	}
	<-ctx.Done()
	b.Close()
	return nil
}
