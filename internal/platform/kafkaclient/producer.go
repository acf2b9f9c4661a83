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

	mu       sync.RWMutex
	session  *session
	rebuilds backoff
	closed   chan struct{} // when Close was called
	closing  sync.Once
	patience time.Duration // with one publish
}

// NewProducer connects in the background; the first Publish shows whether the brokers can be reached.
func NewProducer(cfg Config, log *slog.Logger) (*Producer, error) {
	p := &Producer{cfg: cfg, log: log, closed: make(chan struct{}), patience: messageTimeout + publishMargin}
	s, err := p.connect()
	p.session = s
	return p, err
}

// How long a publish may take: the client gives a record up after the first, and the caller does not wait for its word
// longer than both. A client that is in trouble may never say it.
const (
	messageTimeout = 10 * time.Second
	publishMargin  = 2 * time.Second
)

// Publish writes one record. An error means that the record may or may not have been written, unless it is ErrTooLarge or
// ErrRefused. It ends within messageTimeout and publishMargin, whatever happens.
func (p *Producer) Publish(ctx context.Context, r Record) error {
	return p.PublishAll(ctx, []Record{r})[0]
}

// PublishAll writes the records and returns an error for each, nil for the acknowledged ones, when all are decided or ctx
// is done, and as soon as Publish would. Records of one key keep their order.
func (p *Producer) PublishAll(ctx context.Context, rs []Record) []error {
	type ack struct {
		index int
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	p.mu.RLock()
	s := p.session // one for all: their order is its own
	p.mu.RUnlock()
	acks := make(chan ack, len(rs)) // never blocks the goroutine that serves the events
	errs := make([]error, len(rs))
	waiting := 0
	for i, r := range rs {
		if err := s.produce(ctx, r, func(err error) { acks <- ack{i, err} }); err != nil {
			errs[i] = publishError(r.Topic, err)
			continue
		}
		errs[i] = publishError(r.Topic, errNoAck)
		waiting++
	}
	for ; waiting > 0; waiting-- {
		select {
		case a := <-acks:
			errs[a.index] = publishError(rs[a.index].Topic, a.err)
		case <-s.dead: // what was not decided by now never will be
			for ; len(acks) > 0; waiting-- {
				a := <-acks
				errs[a.index] = publishError(rs[a.index].Topic, a.err)
			}
			s.blame(rs, errs)
			return errs
		case <-ctx.Done():
			return errs
		}
	}
	return errs
}

var errNoAck = errors.New("not acknowledged in time; it may have been written")

// rebuild makes a new client in the place of one with a fatal error: an idempotent producer that lost its place in the
// sequence refuses everything from then on. Until there is a new one every publish fails at once, and tells why.
func (p *Producer) rebuild(broken *session) {
	go broken.close() // which can take its time: nobody waits for it
	p.mu.Lock()
	wait := p.rebuilds.next(time.Now())
	p.mu.Unlock()
	p.log.Error("kafka producer is replaced after a fatal error", "error", broken.cause, "in", wait.String())
	for {
		select {
		case <-p.closed:
			return
		case <-time.After(wait):
		}
		s, err := p.connect()
		if err == nil && !p.install(s) {
			s.close()
			return
		}
		if err == nil {
			return
		}
		wait = longestRebuild
		p.log.Error("kafka producer not replaced yet", "error", err, "in", wait.String())
	}
}

// install puts the session in place, unless the producer was closed meanwhile.
func (p *Producer) install(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return false
	default:
		p.session = s
		return true
	}
}

// The waits before a client is replaced: none for the first, then doubled. A fatal error after calm begins anew.
const (
	firstRebuild   = 100 * time.Millisecond
	longestRebuild = 5 * time.Second
	calm           = time.Minute
)

// backoff grows with events that follow each other.
type backoff struct {
	wait time.Duration
	last time.Time
}

func (b *backoff) next(now time.Time) time.Duration {
	wait := min(2*b.wait, longestRebuild)
	switch {
	case b.last.IsZero() || now.Sub(b.last) > calm:
		wait = 0
	case wait == 0:
		wait = firstRebuild
	}
	b.wait, b.last = wait, now
	return wait
}

// Close waits for what is under way, no longer than the given time, and disconnects.
func (p *Producer) Close(wait time.Duration) {
	p.closing.Do(func() { close(p.closed) })
	p.mu.RLock()
	s := p.session
	p.mu.RUnlock()
	s.client.Flush(int(wait.Milliseconds()))
	s.end(errClosed)
	letGo(s.close)
}

var errClosed = errors.New("the producer is closed")

// ErrRefused marks a record that the broker refuses, though it works: a permission, a policy or the topic's settings stand
// against it. It was not written.
var ErrRefused = errors.New("refused by the broker")

// publishError says what the error means for the record, and names the topic.
func publishError(topic string, err error) error {
	ke, ok := errors.AsType[kafka.Error](err)
	switch {
	case err == nil:
		return nil
	case ok && tooLarge(ke.Code()):
		return fmt.Errorf("publish to %s: %w: %w", topic, ErrTooLarge, err)
	case ok && refuses(ke.Code()):
		return fmt.Errorf("publish to %s: %w: %w", topic, ErrRefused, err)
	}
	return fmt.Errorf("publish to %s: %w", topic, err)
}

func tooLarge(code kafka.ErrorCode) bool {
	return code == kafka.ErrMsgSizeTooLarge || code == kafka.ErrRecordListTooLarge
}

// refuses reports whether the code is a decision of a broker that works. The brokers' codes are positive; those that pass
// by themselves, or that concern the client's session, are listed here. Of the client's own codes, a missing topic or
// partition is what a working broker has told it.
func refuses(code kafka.ErrorCode) bool {
	switch code {
	case kafka.ErrUnknownTopic, kafka.ErrUnknownPartition:
		return true
	case kafka.ErrUnknown, kafka.ErrInvalidMsg, kafka.ErrLeaderNotAvailable, kafka.ErrNotLeaderForPartition, kafka.ErrRequestTimedOut,
		kafka.ErrBrokerNotAvailable, kafka.ErrReplicaNotAvailable, kafka.ErrNetworkException, kafka.ErrCoordinatorLoadInProgress,
		kafka.ErrCoordinatorNotAvailable, kafka.ErrNotCoordinator, kafka.ErrNotEnoughReplicas, kafka.ErrNotEnoughReplicasAfterAppend,
		kafka.ErrNotController, kafka.ErrOutOfOrderSequenceNumber, kafka.ErrDuplicateSequenceNumber, kafka.ErrInvalidProducerEpoch,
		kafka.ErrInvalidProducerIDMapping, kafka.ErrConcurrentTransactions, kafka.ErrKafkaStorageError, kafka.ErrUnknownProducerID,
		kafka.ErrListenerNotFound, kafka.ErrFencedLeaderEpoch, kafka.ErrUnknownLeaderEpoch, kafka.ErrThrottlingQuotaExceeded,
		kafka.ErrProducerFenced, kafka.ErrUnknownTopicID:
		return false
	}
	return code > 0
}
