package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/fleet"
	"example.com/billing/internal/hold"
	"example.com/billing/internal/orders"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/telemetry"
	"example.com/billing/internal/retry"
)

const (
	windowBytes  = 32 << 20 // unfinished messages in memory, per consumer
	windowSlack  = 1024     // messages that wait in memory without a slot: behind their key, for a lease, for a limit
	tierWindow   = 512      // not-yet-due messages in memory, per partition of a tier
	drainAtStop  = 5 * time.Second
	drainReserve = 5 * time.Second // of the stop's time, for cutting, storing and closing
)

// window is how many messages of the main topic may be unfinished.
func window(cfg Config) int { return cfg.Concurrency + windowSlack }

// crew is the consumers of this instance: the main topic's, and one for each tier. A consumer belongs to one membership of
// its group; an instance that comes back to the groups makes new ones.
type crew struct {
	configs []kafkaclient.ConsumerConfig
	mu      sync.Mutex
	members []*kafkaclient.Consumer // none while out of the groups
	setBack chan error              // why the service must start anew: the database was set back
}

// newCrew makes the first consumers, so that bad settings of the client fail the start. They share the slots, a few more
// than charges in flight: the others settle, or wait to be next.
func newCrew(cfg Config, l retry.Ladder, line *hold.Line, store *pgstore.Store, topics topicIDs, guard *orders.Poison, metrics *telemetry.Metrics, handler kafkaclient.Handler, log *slog.Logger) (*crew, error) {
	common := kafkaclient.ConsumerConfig{
		Client: cfg.kafka(), Slots: make(chan struct{}, cfg.Concurrency+cfg.Concurrency/4+1), Gate: line, Handler: handler, Log: log,
		Careful: guard.Careful, EndedWell: guard.EndedWell,
		Lost: noteDeleted(store, topics, metrics),
		Taken: func(ctx context.Context, topic string) (map[int32]int64, error) {
			return store.Taken(ctx, topics.id(topic))
		},
		WindowBytes: windowBytes, Drain: min(drainAtStop, max(time.Second, cfg.StopTimeout-drainReserve)),
	}
	main := common
	main.Topic, main.Group, main.Window = l.Main(), cfg.Group, window(cfg)
	c := &crew{setBack: make(chan error, 1)}
	main.Progress = noteIntake(store, topics.id(l.Main()), c.tellSetBack)
	c.configs = append(c.configs, main)
	for _, t := range l.Tiers() {
		tier := common
		tier.Topic, tier.Group, tier.Window = t.Topic, t.Group, tierWindow
		tier.Client.PrefetchKB = 1024
		tier.Progress = noteIntake(store, topics.id(t.Topic), c.tellSetBack)
		tier.Due = func(m kafkaclient.Message) (time.Time, bool) { return l.Due(m, time.Now()) }
		c.configs = append(c.configs, tier)
	}
	return c, c.muster()
}

// tellSetBack ends the service: what the database has forgotten is read again only from the start of an assignment.
func (c *crew) tellSetBack(err error) {
	select {
	case c.setBack <- err:
	default: // told already
	}
}

// watchSetBack ends with the error that the database was set back.
func (c *crew) watchSetBack(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.setBack:
		return err
	}
}

// muster makes the consumers unless they are there.
func (c *crew) muster() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cfg := range c.configs[len(c.members):] {
		consumer, err := kafkaclient.NewConsumer(cfg)
		if err != nil {
			return err
		}
		c.members = append(c.members, consumer)
	}
	return nil
}

// run consumes until ctx is done and all have drained, or one has failed.
func (c *crew) run(ctx context.Context) error {
	if err := c.muster(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, consumer := range c.list() {
		group.Go(func() error { return consumer.Run(ctx) })
	}
	err := group.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = nil
	return err
}

func (c *crew) list() []*kafkaclient.Consumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members
}

// state tells which consumers are outside of their groups: their messages wait until they are in.
func (c *crew) state() admin.Health {
	var outside []string
	for _, consumer := range c.list() {
		if d := consumer.Outside(); d > 0 {
			outside = append(outside, fmt.Sprintf("%s has not joined its group for %s", consumer.Topic(), d.Round(time.Second)))
		}
	}
	if len(outside) > 0 {
		return admin.Health{State: admin.Failed, Detail: strings.Join(outside, "; ")}
	}
	return admin.Health{State: admin.Ready}
}

// noteIntake counts the finished records of a topic before their offsets move (hazards H18, H27). After a crash a range
// may begin below what was counted; it is then cut there. A database that was set back meanwhile is told to setBack.
func noteIntake(store *pgstore.Store, topic uuid.UUID, setBack func(error)) func(context.Context, []kafkaclient.Progress) error {
	counted := map[int32]int64{} // by this process; one call at a time
	return func(ctx context.Context, ps []kafkaclient.Progress) error {
		for {
			var ranges []pgstore.Intake
			for _, p := range ps {
				r := pgstore.Intake{TopicID: topic, Partition: p.Partition, From: p.Next, Next: p.Next, Records: p.Records(), Counted: counted[p.Partition]}
				if r.Records > 0 {
					r.From = p.Runs[0].From
				}
				ranges = append(ranges, r)
			}
			err := store.AdvanceIntake(ctx, ranges)
			if _, ok := errors.AsType[*pgstore.SetBackError](err); ok {
				setBack(err)
			}
			overlap, ok := errors.AsType[*pgstore.OverlapError](err)
			if !ok {
				for _, r := range ranges {
					if err == nil {
						counted[r.Partition] = max(counted[r.Partition], r.Next)
					}
				}
				return err
			}
			for i, p := range ps {
				if p.Partition == overlap.Intake.Partition {
					ps[i] = p.Since(overlap.Counted)
				}
			}
		}
	}
}

// consume runs until ctx is done and the crew has drained, or it or what it needs has failed. The crew is in the groups for
// as long as this instance belongs there.
func consume(ctx, life context.Context, crew *crew, instance *fleet.Instance, person *room) error {
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() { person.stopping.Store(true) })
	group.Go(func() error { return instance.Member(ctx, crew.run) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-life.Done(): // the store, the relay or the server has ended: its error comes from the clean-ups
			return context.Cause(life)
		}
	})
	return group.Wait()
}
