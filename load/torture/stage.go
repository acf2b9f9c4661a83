package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/retry"
	"example.com/billing/load/rig"
	"example.com/billing/load/torture/verdict"
)

// results is where the result events go. The name is fixed; on a shared cluster other rounds write there, too.
const results = "billing.charges"

// retryDelays are short, so that a round is.
var retryDelays = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}

// concurrency of an instance is small, so that what it holds at rest is small.
const concurrency = 32

// maxPoll is longer than the service ever goes without a poll, and short enough to see that.
const maxPoll = 10 * time.Second

// stage is all that one round plays on.
type stage struct {
	plan     plan
	dir      string // logs, and what a failure is explained by
	times    *timeline
	ladder   retry.Ladder
	group    string
	kafka    kafka
	database *rig.Database
	provider *rig.Provider
	crew     []*instance // those that the plan begins with
	guest    *instance   // one that comes and goes
	client   *kgo.Client // past all links
	admin    *kadm.Client
	from     map[int32]int64 // where the round's results begin
	nudged   int             // times that the broker needed help

	in      rig.Installation
	mu      sync.Mutex
	outages []verdict.Outage // that have ended
	flooded []loadgen.Event  // that came with faults
	targets map[string]*sync.Mutex
	letGo   map[failure.Reason]bool // by the operator

	stopKeeping context.CancelFunc
	keeping     sync.WaitGroup
}

// setUp makes a stage: brokers, database, provider and topics, and instances that do not run yet.
func setUp(ctx context.Context, o options, p plan, dir string) (s *stage, err error) {
	s = &stage{plan: p, dir: dir, times: &timeline{began: time.Now()}, targets: map[string]*sync.Mutex{}, letGo: map[failure.Reason]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.tearDown())
		}
	}()
	name := fmt.Sprintf("torture-%d-%d.orders", p.seed, os.Getpid())
	s.group = name + ".billing"
	s.ladder = retry.NewLadder(name, s.group, retryDelays)
	s.plan.mix.Topic = name
	if err := s.openServers(ctx, o); err != nil {
		return s, err
	}
	s.in = rig.Installation{
		Binary: o.binary, Brokers: s.kafka.addresses(), Database: s.database.URL, Provider: s.provider.Addr, Topic: name, Group: s.group, Settings: s.settings(),
	}
	first := s.in // of the release that the round begins with
	if p.has("deploy") {
		first.Binary = o.older
	}
	for i := range p.instances {
		if err := s.addInstance(first, fmt.Sprintf("billing-%d", i+1)); err != nil {
			return s, err
		}
	}
	if err := s.addInstance(s.in, "guest-1"); err != nil {
		return s, err
	}
	s.guest, s.crew = s.crew[p.instances], s.crew[:p.instances]
	return s, s.prepare(ctx, first)
}

func (s *stage) openServers(ctx context.Context, o options) (err error) {
	if o.kafka != "" {
		s.kafka, err = openScriptedKafka(ctx, o.kafka)
	} else {
		s.kafka, err = startEmbeddedKafka(s.dir)
	}
	if err != nil {
		return err
	}
	if o.database != "" {
		s.database, err = rig.OpenDatabase(ctx, o.database, "torture_")
	} else {
		s.database, err = rig.StartDatabase(ctx, s.dir)
	}
	if err != nil {
		return err
	}
	if s.provider, err = startProvider(s.plan); err != nil {
		return err
	}
	s.client, err = kgo.NewClient(kgo.SeedBrokers(s.kafka.addresses()...), kgo.UnknownTopicRetries(-1), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.RequestTimeoutOverhead(3*time.Second), kgo.MaxBufferedRecords(20_000))
	if err != nil {
		return err
	}
	s.admin = kadm.NewClient(s.client)
	return nil
}

// prepare makes schema and topics, and notes where the results of this round begin.
func (s *stage) prepare(ctx context.Context, in rig.Installation) error {
	if err := in.Prepare(ctx, s.plan.partitions); err != nil {
		return err
	}
	if err := s.database.SetTraps(ctx, trapped); err != nil {
		return err
	}
	s.from = map[int32]int64{}
	return rig.Await(ctx, 10*time.Second, func() error { // a new topic is not known to every broker at once
		ends, err := s.admin.ListEndOffsets(ctx, results)
		if err != nil {
			return err
		}
		ends.Each(func(o kadm.ListedOffset) { s.from[o.Partition] = o.Offset })
		return ends.Error()
	})
}

// tearDown ends whatever there is.
func (s *stage) tearDown() error {
	all := s.crew
	if s.guest != nil {
		all = append([]*instance{s.guest}, s.crew...)
	}
	if s.stopKeeping != nil {
		s.stopKeeping()
	}
	for _, i := range all {
		i.want(false)
		i.kill()
	}
	s.keeping.Wait()
	for _, i := range all {
		i.CloseLinks()
	}
	if s.client != nil {
		s.client.Close()
	}
	if s.provider != nil {
		s.provider.Close()
	}
	var errs []error
	if s.database != nil {
		errs = append(errs, s.database.Close())
	}
	if s.kafka != nil {
		errs = append(errs, s.kafka.close())
	}
	return errors.Join(errs...)
}
