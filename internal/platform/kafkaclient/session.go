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

// session is the life of one client of a Producer, from its making to its fatal error or its close.
type session struct {
	client *kafka.Producer
	log    *slog.Logger

	ending sync.Once
	dead   chan struct{} // closed: no acknowledgement comes any more
	cause  error         // why; set before dead is closed

	mu     sync.RWMutex // held for reading while the client is used: a closed one must not be
	closed bool
}

// connect makes a client and the goroutine that drains its events: undrained ones would block it.
func (p *Producer) connect() (*session, error) {
	client, err := kafka.NewProducer(p.cfg.producerConfig())
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	s := &session{client: client, log: p.log, dead: make(chan struct{})}
	go s.drain(func() { go p.rebuild(s) })
	return s, nil
}

// drain serves acknowledgements and errors until the client is closed.
func (s *session) drain(broken func()) {
	var last kafka.Error
	var lastAt time.Time
	for ev := range s.client.Events() {
		switch e := ev.(type) {
		case *kafka.Message:
			if acked, ok := e.Opaque.(func(error)); ok {
				acked(e.TopicPartition.Error)
			}
		case kafka.Error:
			if e.IsFatal() {
				if s.end(fmt.Errorf("fatal error of the kafka producer: %w", e)) {
					broken()
				}
			} else if e.Code() != last.Code() || time.Since(lastAt) > 10*time.Second {
				last, lastAt = e, time.Now()
				s.log.Warn("kafka producer", "error", e.Error())
			}
		}
	}
}

// end fails whoever waits on the session, and reports whether this was its end.
func (s *session) end(cause error) (first bool) {
	s.ending.Do(func() { s.cause, first = cause, true; close(s.dead) })
	return first
}

// blame puts the session's end in the place of every answer that did not come.
func (s *session) blame(rs []Record, errs []error) {
	for i, err := range errs {
		if errors.Is(err, errNoAck) {
			errs[i] = publishError(rs[i].Topic, fmt.Errorf("%w: %w", errNoAck, s.cause))
		}
	}
}

func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.client.Close()
}

// produce hands the record to the client, waiting while its queue is full.
func (s *session) produce(ctx context.Context, r Record, acked func(error)) error {
	m := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &r.Topic, Partition: kafka.PartitionAny},
		Key:            r.Key, Value: r.Value, Opaque: acked,
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	for {
		err := s.tryProduce(m)
		if !isCode(err, kafka.ErrQueueFull) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.dead:
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *session) tryProduce(m *kafka.Message) error {
	select {
	case <-s.dead:
		return s.cause
	default:
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed
	}
	return s.client.Produce(m, nil)
}
