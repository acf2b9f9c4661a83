package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/billing/internal/demo/broker"
)

// kafka is the brokers of a round.
type kafka interface {
	addresses() []string
	// session is the shortest time, in milliseconds, after which the brokers miss an instance.
	session() int
	kill(n int) error
	restart(n int) error
	freeze(n int) error
	thaw(n int) error
	// nudge ends a rebalance that these brokers will never end by themselves, and reports whether it did anything.
	nudge() (bool, error)
	close() error
}

// embeddedKafka is one broker in a child process, which can be killed; what it acknowledged is on its disk.
type embeddedKafka struct {
	addr string
	dir  string
	log  string
	p    *process
}

func startEmbeddedKafka(dir string) (*embeddedKafka, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	k := &embeddedKafka{addr: addr, dir: filepath.Join(dir, "kafka"), log: filepath.Join(dir, "broker.log")}
	return k, k.restart(0)
}

func freeAddress() (string, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (k *embeddedKafka) addresses() []string { return []string{k.addr} }

func (*embeddedKafka) session() int { return 3000 }

func (k *embeddedKafka) kill(int) error { k.p.kill(); return nil }

func (k *embeddedKafka) restart(int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	k.p, err = launch(k.log, os.Environ(), self, "broker", k.dir, k.addr)
	if err != nil {
		return err
	}
	return k.answers()
}

// answers waits until the broker listens.
func (k *embeddedKafka) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp4", k.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the broker does not listen, see %s: %w", k.log, err)
		case <-k.p.exited:
			return fmt.Errorf("the broker ended at its start, see %s", k.log)
		case <-tick.C:
		}
	}
}

func (k *embeddedKafka) freeze(int) error { k.p.signal(syscall.SIGSTOP); return nil }

func (k *embeddedKafka) thaw(int) error { k.p.signal(syscall.SIGCONT); return nil }

// nudge restarts the broker. It never drops a member that was killed while it waited in a rebalance, and drops the others
// that wait for it: an Apache Kafka does neither.
func (k *embeddedKafka) nudge() (bool, error) {
	k.p.kill()
	return true, k.restart(0)
}

func (k *embeddedKafka) close() error { k.p.kill(); return nil }

// runBroker is the child process.
func runBroker(ctx context.Context, dir, addr string) error {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	b, err := broker.Start(dir, port)
	if err != nil {
		return err
	}
	<-ctx.Done()
	b.Close()
	return nil
}

// scriptedKafka is a cluster that a script starts and breaks: `SCRIPT brokers`, `kill N`, `restart N`, `freeze N`, `thaw N`,
// N from 1. It is shared by all rounds and left running.
type scriptedKafka struct {
	script  string
	brokers []string
}

func openScriptedKafka(ctx context.Context, script string) (*scriptedKafka, error) {
	out, err := exec.CommandContext(ctx, script, "brokers").Output()
	if err != nil {
		return nil, fmt.Errorf("%s brokers: %w", script, err)
	}
	k := &scriptedKafka{script: script, brokers: strings.Split(strings.TrimSpace(string(out)), ",")}
	if slices.Contains(k.brokers, "") {
		return nil, fmt.Errorf("%s brokers names none: start the cluster first", script)
	}
	return k, nil
}

func (k *scriptedKafka) addresses() []string { return k.brokers }

func (*scriptedKafka) session() int { return 6000 } // a real broker takes no shorter one by default

func (k *scriptedKafka) kill(n int) error { return k.run("kill", n) }

// restart tries again: a script may look for the new process before it is there.
func (k *scriptedKafka) restart(n int) error {
	return await(context.Background(), 2*time.Minute, func() error { return k.run("restart", n) })
}

func (k *scriptedKafka) freeze(n int) error { return k.run("freeze", n) }

func (k *scriptedKafka) thaw(n int) error { return k.run("thaw", n) }

func (*scriptedKafka) nudge() (bool, error) { return false, nil }

func (*scriptedKafka) close() error { return nil }

func (k *scriptedKafka) run(verb string, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, k.script, verb, strconv.Itoa(n+1)).CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("%s %s %d: %w", k.script, verb, n+1, err), errors.New(string(out)))
	}
	return nil
}
