package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
	"example.com/billing/load/rig"
)

// flood sends records that are no orders. Nobody lets them go before all is healed: the good orders go on meanwhile.
func (s *stage) flood(ctx context.Context, f fault) (undo func() error, err error) {
	var batch []*kgo.Record
	for n := range f.count {
		r := kafkaclient.Record{Key: []byte(strconv.Itoa(n)), Value: fmt.Appendf(nil, "flood at %s: %d", f.at, n)}
		s.keep(loadgen.Event{Kind: "flood", Record: r, Want: loadgen.Want{Outcome: loadgen.Dead, Reason: failure.NotJSON}})
		batch = append(batch, &kgo.Record{Topic: s.ladder.Main(), Key: r.Key, Value: r.Value})
	}
	wait, cancel := context.WithTimeout(ctx, time.Minute) // brokers may be away
	defer cancel()
	if err := s.client.ProduceSync(wait, batch...).FirstErr(); err != nil {
		return nothing, err
	}
	return func() error { //nolint:unparam // all faults are undone alike
		if f.detail == "restart" {
			s.roll(ctx, func(*instance) {})
		}
		return nil
	}, nil
}

// keep remembers an event that came with a fault.
func (s *stage) keep(e loadgen.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flooded = append(s.flooded, e)
}

// publishAhead publishes the latest records of the retry topics once more, as an instance does whose clock is days ahead and
// that had no acknowledgement: such a copy must not wait for days.
func (s *stage) publishAhead(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, t := range s.ladder.Tiers() {
		var records []*kgo.Record
		if err := rig.Await(wait, time.Minute, func() (err error) { // brokers may be away
			records, err = rig.Records(wait, s.kafka.addresses(), t.Topic, nil)
			return err
		}); err != nil {
			return err
		}
		for _, r := range records[max(0, len(records)-aheadCopies):] {
			if err := s.client.ProduceSync(wait, ahead(r)).FirstErr(); err != nil {
				return err
			}
		}
	}
	return nil
}

// aheadCopies of each tier.
const aheadCopies = 5

func ahead(r *kgo.Record) *kgo.Record {
	c := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		if h.Key == retry.HeaderNotBefore {
			h.Value = strconv.AppendInt(nil, time.Now().Add(72*time.Hour).UnixMilli(), 10)
		}
		c.Headers = append(c.Headers, h)
	}
	return c
}
