package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const loopSchema = `CREATE TABLE IF NOT EXISTS loop_charges (
	order_id uuid PRIMARY KEY, event_id uuid NOT NULL, amount numeric NOT NULL, currency text NOT NULL, state text NOT NULL, charge_id text)`

// Loop handles one message at a time: claim, call, settle, commit the offset. It is safe against a crash, as long as it is
// the only instance and the provider forgets no key; on a failure it stops.
func Loop(ctx context.Context, cfg Config) error {
	p, err := newPeer(ctx, cfg, loopSchema, kafka.ConfigMap{"enable.auto.commit": false})
	if err != nil {
		return err
	}
	for ctx.Err() == nil && err == nil {
		message, ok := p.consumer.Poll(100).(*kafka.Message)
		if !ok {
			continue
		}
		if err = p.handle(ctx, message.Value); err == nil {
			_, err = p.consumer.CommitMessage(message)
		}
	}
	if ctx.Err() != nil {
		err = nil // stopped in the middle of an order: it is read again
	}
	return errors.Join(err, p.close())
}

func (p *peer) handle(ctx context.Context, value []byte) error {
	var o order
	if err := json.Unmarshal(value, &o); err != nil {
		return fmt.Errorf("read the event: %w", err)
	}
	var state string
	err := p.pool.QueryRow(ctx, `INSERT INTO loop_charges (order_id, event_id, amount, currency, state) VALUES ($1, $2, $3::text::numeric, $4, 'started')
		ON CONFLICT (order_id) DO UPDATE SET order_id = excluded.order_id RETURNING state`,
		o.OrderID, o.EventID, o.TotalAmount.String(), o.Currency).Scan(&state)
	if err != nil {
		return fmt.Errorf("claim order %s: %w", o.OrderID, err)
	}
	if state == "charged" {
		return nil
	}
	id, err := p.charge(ctx, o)
	if err != nil {
		return fmt.Errorf("charge order %s: %w", o.OrderID, err)
	}
	if _, err := p.pool.Exec(ctx, `UPDATE loop_charges SET state = 'charged', charge_id = $2 WHERE order_id = $1`, o.OrderID, id); err != nil {
		return fmt.Errorf("settle order %s: %w", o.OrderID, err)
	}
	return nil
}
