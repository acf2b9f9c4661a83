package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/load/rig"
)

// sell produces the plan's events over its spell, past all faults but the broker's, and returns them when the broker has
// acknowledged every one. A broker that is away makes it wait.
func (s *stage) sell(ctx context.Context, began time.Time) ([]loadgen.Event, error) {
	generator, err := loadgen.New(s.plan.mix)
	if err != nil {
		return nil, err
	}
	rnd := rand.New(rand.NewPCG(s.plan.seed, 0x736b6577))
	every := s.plan.spell / time.Duration(s.plan.events)
	events := make([]loadgen.Event, 0, s.plan.events)
	var failed error
	var once sync.Once
	for n := range s.plan.events {
		rig.Pause(ctx, time.Until(began.Add(time.Duration(n)*every)))
		e := generator.Next()
		events = append(events, e)
		s.client.Produce(ctx, s.record(e, rnd), func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { failed = err })
			}
		})
	}
	flush, cancel := context.WithTimeout(ctx, 3*time.Minute) // two brokers of three may be on their way back
	defer cancel()
	if err := s.client.Flush(flush); err != nil {
		return events, fmt.Errorf("the broker did not acknowledge all orders: %w", err)
	}
	return events, failed
}

// record gives some records a timestamp that another clock wrote: as late as brokers allow, or days ago.
func (s *stage) record(e loadgen.Event, rnd *rand.Rand) *kgo.Record {
	r := &kgo.Record{Topic: s.ladder.Main(), Key: e.Record.Key, Value: e.Record.Value}
	for _, h := range e.Record.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if dice := rnd.Float64(); dice < s.plan.skewed/2 {
		r.Timestamp = time.Now().Add(time.Duration(rnd.Int64N(int64(s.plan.ahead))))
	} else if dice < s.plan.skewed {
		r.Timestamp = time.Now().Add(-time.Duration(rnd.IntN(72*3600)) * time.Second)
	}
	return r
}
