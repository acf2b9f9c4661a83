package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/retry"
	"example.com/billing/load/rig"
)

const (
	partitions = 6
	steady     = 100 // orders a second
	restWithin = time.Minute
)

// delays are the service's own.
var delays = []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}

// scene is what one scenario is played on: topics, a database and a provider of its own, and instances with the default
// settings.
type scene struct {
	*rig.Servers
	dir      string
	in       rig.Installation
	ladder   retry.Ladder
	database *rig.Database
	provider *rig.Provider
	orders   *loadgen.Generator
	crew     []*member
	endFlow  func() error // returns when all orders are in the topic
}

// member is an instance and its process.
type member struct {
	*rig.Instance
	*rig.Process
}

func setUp(ctx context.Context, servers *rig.Servers, binary, dir string, sc scenario) (s *scene, err error) {
	name := "recovery-" + strings.ToLower(rand.Text()[:10])
	topic := name + ".orders"
	s = &scene{Servers: servers, dir: filepath.Join(dir, name), ladder: retry.NewLadder(topic, name, delays), endFlow: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.tearDown())
		}
	}()
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return s, err
	}
	if s.orders, err = loadgen.New(loadgen.Config{Topic: topic, Seed: 42}); err != nil {
		return s, err
	}
	if s.database, err = rig.OpenDatabase(ctx, servers.Database, "recovery_"); err != nil {
		return s, err
	}
	if s.provider, err = rig.StartProvider(providersim.Config{Latency: 20 * time.Millisecond, Seed: 42, Rules: sc.rules}); err != nil {
		return s, err
	}
	s.in = rig.Installation{
		Binary: binary, Brokers: servers.Brokers, Database: s.database.URL, Provider: s.provider.Addr, Topic: topic, Group: name, Settings: sc.settings,
	}
	return s, s.in.Prepare(ctx, partitions)
}

// join starts an instance and returns when it is ready.
func (s *scene) join(ctx context.Context) (*member, error) {
	place, err := s.in.Place(fmt.Sprintf("billing-%d", len(s.crew)+1), s.dir)
	if err != nil {
		return nil, err
	}
	m := &member{Instance: place}
	s.crew = append(s.crew, m)
	return m, m.start(ctx)
}

func (m *member) start(ctx context.Context) error {
	if err := m.serve(ctx); err != nil {
		return err
	}
	return rig.Await(ctx, 30*time.Second, func() error { return m.ready(ctx, 200) })
}

// serve starts a process and returns when it serves, ready or not.
func (m *member) serve(ctx context.Context) (err error) {
	served := len(m.Served())
	if m.Process, err = m.Launch(); err != nil {
		return err
	}
	return rig.Await(ctx, 30*time.Second, func() error {
		if len(m.Served()) == served {
			return errors.New(m.Name + " does not serve")
		}
		return nil
	})
}

// ready complains unless the readiness answer is the given one.
func (m *member) ready(ctx context.Context, want int) error {
	status, reasons, err := m.Get(ctx, "/readyz")
	if err == nil && status != want {
		err = fmt.Errorf("%s: /readyz is %d: %s", m.Name, status, reasons)
	}
	return err
}

// flow produces orders at a rate until endFlow.
func (s *scene) flow(ctx context.Context, perSecond float64) {
	flowing, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.orders.AtRate(flowing, s, perSecond, 0, nil) }()
	s.endFlow = sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-ended, s.Kafka.Flush(ctx))
	})
}

// warm starts an instance and a flow that is being charged.
func (s *scene) warm(ctx context.Context, perSecond float64) (*member, error) {
	m, err := s.join(ctx)
	if err != nil {
		return nil, err
	}
	s.flow(ctx, perSecond)
	return m, s.awaitCharges(ctx, int(2*perSecond))
}

// awaitCharges waits for some more charges.
func (s *scene) awaitCharges(ctx context.Context, more int) error {
	before := s.provider.Sim.Summary().Charged
	return rig.Await(ctx, restWithin, func() error {
		if now := s.provider.Sim.Summary().Charged; now < before+more {
			return fmt.Errorf("%d charges of %d", now-before, more)
		}
		return nil
	})
}

// awaitAll waits until all orders in the topic are charged.
func (s *scene) awaitAll(ctx context.Context, within time.Duration) error {
	return rig.Await(ctx, within, func() error {
		orders, err := s.count(ctx, s.ladder.Main())
		if err != nil {
			return err
		}
		if charged := s.provider.Sim.Summary().Charged; charged < orders {
			return fmt.Errorf("%d of %d orders are charged", charged, orders)
		}
		return nil
	})
}

// count is how many records topics hold.
func (s *scene) count(ctx context.Context, topics ...string) (n int, err error) {
	ends, err := s.Admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return 0, err
	}
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	return n, ends.Error()
}

// counted are the failures that cost an attempt: each first record in a retry topic or the dead letters that tells of so many
// attempts. A wait for a rate limit stands there, too, and costs none.
func (s *scene) counted(ctx context.Context) (int, error) {
	seen := map[string]bool{}
	for _, topic := range s.ladder.Topics()[1:] {
		records, err := rig.Records(ctx, s.Brokers, topic, nil)
		if err != nil {
			return 0, err
		}
		for _, r := range records {
			h := map[string]string{}
			for _, header := range r.Headers {
				h[header.Key] = string(header.Value)
			}
			if n := h[retry.HeaderAttempt]; n != "0" {
				seen[h[retry.HeaderOriginalPartition]+"/"+h[retry.HeaderOriginalOffset]+"/"+n] = true
			}
		}
	}
	return len(seen), nil
}

// tearDown ends whatever there is.
func (s *scene) tearDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, m := range s.crew {
		if m.Process != nil {
			m.Kill()
		}
		m.CloseLinks()
	}
	if s.provider != nil {
		s.provider.Close()
	}
	errs := []error{s.endFlow(), s.DeleteTopics(ctx, s.in.Topic)}
	if s.database != nil {
		errs = append(errs, s.database.Close())
	}
	return errors.Join(errs...)
}
