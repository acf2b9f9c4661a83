package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/load/rig"
	"example.com/billing/load/torture/verdict"
)

// restWithin is how long a healed world may take: three retry delays, a lease, a session, the minute for which dead letters are
// withheld after there were last too many, and as much again for a machine that does other things.
const restWithin = 150 * time.Second

// askOperatorEvery is how often an operator looks whether dead letters are withheld.
const askOperatorEvery = 10 * time.Second

// heal undoes whatever may still be broken, and brings every instance back.
func (s *stage) heal(ctx context.Context) error {
	for _, i := range s.crew {
		if err := i.Heal(); err != nil {
			return err
		}
		i.thaw()
		i.want(true)
	}
	s.times.note("healed")
	return s.awaitServing(ctx, 40*time.Second)
}

// awaitRest waits until nothing is left to do: every offset committed, no event in the outbox, no order in flight, and
// the same again a moment later.
func (s *stage) awaitRest(ctx context.Context, events []loadgen.Event) error {
	began, asked := time.Now(), time.Now()
	return rig.AwaitCalm(ctx, restWithin, 5, func() error {
		err := s.restless(ctx)
		if err != nil && time.Since(asked) > askOperatorEvery {
			asked = time.Now()
			err = errors.Join(err, s.letFloodGo(ctx, events))
		}
		if err != nil && time.Since(began) > nudgeAfter && s.unstable(ctx) != nil {
			began = time.Now()
			err = errors.Join(err, s.nudge())
		}
		return err
	})
}

// nudgeAfter is longer than any rebalance takes.
const nudgeAfter = maxPoll + 10*time.Second

func (s *stage) nudge() error {
	did, err := s.kafka.nudge()
	if did {
		s.nudged++
		s.times.note("the broker was restarted: it was stuck in a rebalance")
	}
	return err
}

// restless says what is still to do.
func (s *stage) restless(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if n := s.provider.Sim.Summary().Inflight; n > 0 {
		return fmt.Errorf("%d requests at the provider", n)
	}
	for _, g := range s.readers() {
		ends, err := s.admin.ListEndOffsets(ctx, g.topic)
		if err != nil {
			return err
		}
		committed, err := s.committed(ctx, g)
		if err != nil {
			return err
		}
		for p, end := range ends[g.topic] {
			if committed[p] != end.Offset {
				return fmt.Errorf("%s[%d]: %d committed of %d", g.topic, p, committed[p], end.Offset)
			}
		}
	}
	if err := s.unstable(ctx); err != nil {
		return err
	}
	b, err := s.booksAtRest(ctx)
	if err != nil {
		return err
	}
	if b.Outbox > 0 || b.InFlight > 0 {
		return fmt.Errorf("%d events in the outbox, %d orders in flight", b.Outbox, b.InFlight)
	}
	return nil
}

// unstable names a group that is still handing partitions over.
func (s *stage) unstable(ctx context.Context) error {
	var names []string
	for _, g := range s.groups() {
		names = append(names, g.group)
	}
	return rig.Stable(ctx, s.admin, len(s.crew), names)
}

// groupTopic is a group and what it reads.
type groupTopic struct{ group, topic string }

func (s *stage) groups() []groupTopic {
	all := []groupTopic{{s.group, s.ladder.Main()}}
	for _, t := range s.ladder.Tiers() {
		all = append(all, groupTopic{t.Group, t.Topic})
	}
	return all
}

// readers are the groups whose topic must have been read to its end.
func (s *stage) readers() []groupTopic {
	all := s.groups()
	if s.plan.has("delays") {
		t := s.otherLadder().Tiers()[1]
		all = append(all, groupTopic{t.Group, t.Topic})
	}
	return all
}

func (s *stage) committed(ctx context.Context, g groupTopic) (map[int32]int64, error) {
	next := map[int32]int64{}
	offsets, err := s.admin.FetchOffsets(ctx, g.group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return next, nil
	}
	if err != nil {
		return nil, err
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == g.topic && o.At >= 0 {
			next[o.Partition] = o.At
		}
	})
	return next, nil
}

// watchCommits samples the committed offsets until ctx is done.
func (s *stage) watchCommits(ctx context.Context) (samples []verdict.Commit) {
	for ctx.Err() == nil {
		for _, g := range s.groups() {
			ask, cancel := context.WithTimeout(ctx, 2*time.Second)
			next, err := s.committed(ask, g)
			cancel()
			if err == nil { // else the broker is away: the next sample tells
				samples = append(samples, verdict.Commit{At: time.Now(), Topic: g.topic, Next: next})
			}
		}
		rig.Pause(ctx, 400*time.Millisecond)
	}
	return samples
}

// booksAtRest asks the database what must be nothing at rest.
func (s *stage) booksAtRest(ctx context.Context) (b verdict.Books, err error) {
	conn, err := pgx.Connect(ctx, s.database.URL)
	if err != nil {
		return b, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM charges WHERE state = 'in_flight'),
		(SELECT count(*) FROM charge_anomalies)`).Scan(&b.Outbox, &b.InFlight, &b.Anomalies)
	return b, err
}
