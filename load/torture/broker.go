package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/billing/load/rig"
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

// embeddedKafka is one broker.
type embeddedKafka struct{ *rig.Broker }

func startEmbeddedKafka(dir string) (kafka, error) {
	b, err := rig.StartBroker(dir)
	if err != nil {
		return nil, err
	}
	return embeddedKafka{b}, nil
}

func (k embeddedKafka) addresses() []string { return []string{k.Addr} }

func (embeddedKafka) session() int { return 3000 }

func (k embeddedKafka) kill(int) error { k.Kill(); return nil }

func (k embeddedKafka) restart(int) error { return k.Restart() }

func (k embeddedKafka) freeze(int) error { k.Freeze(); return nil }

func (k embeddedKafka) thaw(int) error { k.Thaw(); return nil }

// nudge restarts the broker. It never drops a member that was killed while it waited in a rebalance, and drops the others
// that wait for it: an Apache Kafka does neither.
func (k embeddedKafka) nudge() (bool, error) {
	k.Kill()
	return true, k.Restart()
}

func (k embeddedKafka) close() error { k.Kill(); return nil }

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
	return rig.Await(context.Background(), 2*time.Minute, func() error { return k.run("restart", n) })
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
