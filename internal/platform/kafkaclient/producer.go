package kafkaclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Producer publishes records and waits for the acknowledgement of all in-sync replicas. It is idempotent: a send that the
// client repeats is written once. It is safe for concurrent use.
type Producer struct {
	cfg Config
	log *slog.Logger

	mu     sync.RWMutex
	client *kafka.Producer
	closed bool
}

// NewProducer connects in the background; the first Publish shows whether the brokers can be reached.
func NewProducer(cfg Config, log *slog.Logger) (*Producer, error) {
	p := &Producer{cfg: cfg, log: log}
	client, err := p.connect()
	p.client = client
	return p, err
}

// connect makes a client and the goroutine that drains its events: undrained ones would block it.
func (p *Producer) connect() (*kafka.Producer, error) {
	client, err := kafka.NewProducer(p.cfg.producerConfig())
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	go p.drain(client)
	return client, nil
}

// drain serves acknowledgements and errors until the client is closed.
func (p *Producer) drain(client *kafka.Producer) {
	var last kafka.Error
	var lastAt time.Time
	for ev := range client.Events() {
		switch e := ev.(type) {
		case *kafka.Message:
			if acked, ok := e.Opaque.(func(error)); ok {
				acked(e.TopicPartition.Error)
			}
		case kafka.Error:
			if e.IsFatal() {
				go p.replace(client, e)
			} else if e.Code() != last.Code() || time.Since(lastAt) > 10*time.Second {
				last, lastAt = e, time.Now()
				p.log.Warn("kafka producer", "error", e.Error())
			}
		}
	}
}

// replace makes a new client in the place of one with a fatal error: an idempotent producer that lost its place in the
// sequence refuses everything from then on.
func (p *Producer) replace(broken *kafka.Producer, cause error) {
	if p.swap(broken, cause) {
		broken.Close() // which can take its time: nobody waits for it
	}
}

func (p *Producer) swap(broken *kafka.Producer, cause error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.client != broken {
		return false
	}
	p.log.Error("kafka producer replaced after a fatal error", "error", cause)
	client, err := p.connect()
	if err != nil {
		p.log.Error("kafka producer not replaced", "error", err)
		return false
	}
	p.client = client
	return true
}

// Publish writes one record. An error means that the record may or may not have been written. ErrTooLarge is final.
func (p *Producer) Publish(ctx context.Context, r Record) error {
	return p.PublishAll(ctx, []Record{r})[0]
}

// PublishAll writes the records and returns an error for each, nil for the acknowledged ones, when all are decided or ctx
// is done. Records of one key keep their order.
func (p *Producer) PublishAll(ctx context.Context, rs []Record) []error {
	type ack struct {
		index int
		err   error
	}
	acks := make(chan ack, len(rs)) // never blocks the goroutine that serves the events
	errs := make([]error, len(rs))
	waiting := 0
	for i, r := range rs {
		if err := p.produce(ctx, r, func(err error) { acks <- ack{i, err} }); err != nil {
			errs[i] = publishError(r.Topic, err)
			continue
		}
		errs[i] = errNoAck
		waiting++
	}
	for ; waiting > 0; waiting-- {
		select {
		case a := <-acks:
			errs[a.index] = publishError(rs[a.index].Topic, a.err)
		case <-ctx.Done():
			return errs
		}
	}
	return errs
}

var errNoAck = errors.New("not acknowledged in time; it may have been written")

// produce hands the record to the client, waiting while its queue is full.
func (p *Producer) produce(ctx context.Context, r Record, acked func(error)) error {
	m := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &r.Topic, Partition: kafka.PartitionAny},
		Key:            r.Key, Value: r.Value, Opaque: acked,
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	for {
		p.mu.RLock()
		client, closed := p.client, p.closed
		p.mu.RUnlock()
		if closed {
			return errors.New("the producer is closed")
		}
		err := client.Produce(m, nil)
		if !isCode(err, kafka.ErrQueueFull) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func publishError(topic string, err error) error {
	switch {
	case err == nil:
		return nil
	case isCode(err, kafka.ErrMsgSizeTooLarge), isCode(err, kafka.ErrInvalidRecord):
		return fmt.Errorf("publish to %s: %w: %w", topic, ErrTooLarge, err)
	}
	return fmt.Errorf("publish to %s: %w", topic, err)
}

// Close waits for what is under way, no longer than the given time, and disconnects.
func (p *Producer) Close(wait time.Duration) {
	p.mu.Lock()
	client := p.client
	p.closed = true
	p.mu.Unlock()
	client.Flush(int(wait.Milliseconds()))
	letGo(client.Close)
}
