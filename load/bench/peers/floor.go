package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"golang.org/x/sync/errgroup"
)

const (
	floorSchema = `CREATE TABLE IF NOT EXISTS floor_charges (order_id uuid PRIMARY KEY, charge_id text NOT NULL)`
	floorBatch  = 500
)

// Floor consumes, POSTs with so many in flight and writes one batched insert per commit. Nothing is claimed before the
// call, nothing is tried again, and offsets are stored in whatever order the answers come: a crash loses orders.
func Floor(ctx context.Context, cfg Config) error {
	p, err := newPeer(ctx, cfg, floorSchema, kafka.ConfigMap{
		"enable.auto.offset.store": false, "fetch.queue.backoff.ms": 5, "queued.max.messages.kbytes": 8192, // as the service has it
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	messages, charged := make(chan *kafka.Message), make(chan chargedOrder, cfg.InFlight)
	for range cfg.InFlight {
		g.Go(func() error { return p.chargeAll(ctx, messages, charged) })
	}
	g.Go(func() error { return p.storeAll(ctx, charged) })
	g.Go(func() error {
		for ctx.Err() == nil {
			message, ok := p.consumer.Poll(100).(*kafka.Message)
			if !ok {
				continue
			}
			select {
			case messages <- message:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	})
	err = g.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, p.close())
}

type chargedOrder struct {
	message *kafka.Message
	order   string
	charge  string
}

func (p *peer) chargeAll(ctx context.Context, messages <-chan *kafka.Message, charged chan<- chargedOrder) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-messages:
			var o order
			if err := json.Unmarshal(m.Value, &o); err != nil {
				return fmt.Errorf("read the event: %w", err)
			}
			id, err := p.charge(ctx, o)
			if err != nil {
				return err
			}
			select {
			case charged <- chargedOrder{m, o.OrderID, id}:
			case <-ctx.Done():
			}
		}
	}
}

// storeAll writes what gathered while the last batch was written.
func (p *peer) storeAll(ctx context.Context, charged <-chan chargedOrder) error {
	for {
		var batch []chargedOrder
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-charged:
			batch = append(batch, c)
		}
		for more := true; more && len(batch) < floorBatch; {
			select {
			case c := <-charged:
				batch = append(batch, c)
			default:
				more = false
			}
		}
		if err := p.store(ctx, batch); err != nil {
			return err
		}
	}
}

func (p *peer) store(ctx context.Context, batch []chargedOrder) error {
	orders, charges := make([]string, len(batch)), make([]string, len(batch))
	offsets := make([]kafka.TopicPartition, len(batch))
	for i, c := range batch {
		orders[i], charges[i] = c.order, c.charge
		offsets[i] = c.message.TopicPartition
		offsets[i].Offset++
	}
	if _, err := p.pool.Exec(ctx, `INSERT INTO floor_charges SELECT * FROM unnest($1::uuid[], $2::text[]) ON CONFLICT DO NOTHING`, orders, charges); err != nil {
		return fmt.Errorf("store %d charges: %w", len(batch), err)
	}
	_, err := p.consumer.StoreOffsets(offsets)
	return err
}
