package kafkaclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Handler handles one message. nil: its fate is durable, the offset may move. An error: nobody has taken responsibility,
// the message is handled again, after the error's RetryIn() if it has one.
type Handler func(ctx context.Context, m Message) error

// Gate lets messages pass to the handler. hold.Line is the one implementation.
type Gate interface {
	Enter(ctx context.Context) (leave func(), err error)
}

// ConsumerConfig wires a consumer of one topic.
type ConsumerConfig struct {
	Client  Config
	Topic   string
	Group   string
	Slots   chan struct{} // bounds the messages in handlers, shared by the consumers of an instance
	Gate    Gate
	Handler Handler
	// Due is when a message may be handled, asked once, when it is received; nil: at once. With Due, partitions wait apart
	// from each other. A message whose due time cannot be right is odd: it takes no place in the window, so that many of
	// those keep nobody else waiting.
	Due func(m Message) (at time.Time, odd bool)
	// Window bounds the unfinished messages in memory: of the consumer, or of each partition with Due.
	Window      int
	WindowBytes int64
	Drain       time.Duration // how long a revocation or a stop waits for handlers before it cuts them
	// Stall is how long a partition may owe records, without our having paused it, or the group partitions, before that is
	// reported; 0: 30 s.
	Stall time.Duration
	// Lost is told of records from one offset to before another that were deleted before they were handled, and may be told
	// again. While it fails the offsets of the partition stay. Nil: nobody is told.
	Lost func(ctx context.Context, topic string, partition int32, from, to int64) error
	// Careful tells up to which offset the records of a new assignment are handled one at a time; nil: none are.
	Careful func(ctx context.Context, topic string, partition int32, committed int64) (until int64, err error)
	// Taken tells up to which offset the partitions of the topic were taken, by our own books; a partition that is missing was
	// not. Where they know of less than the group has committed, reading begins there. Nil: nobody is asked.
	Taken func(ctx context.Context, topic string) (map[int32]int64, error)
	// EndedWell is told of assignments that Careful was asked about and that ended without a crash, with the offsets that it
	// was asked about; nil: nobody is.
	EndedWell func(ctx context.Context, topic string, began map[int32]int64) error
	// Progress is called before offsets are stored; while it fails they are not.
	Progress func(ctx context.Context, ps []Progress) error
	Log      *slog.Logger
}

// Consumer reads one topic in one group and handles its messages concurrently, one at a time for each key.
type Consumer struct {
	cfg    ConsumerConfig
	client *kafka.Consumer
	seed   maphash.Seed

	room     chan struct{} // a token when the window has room again
	finished chan struct{} // a token when there are offsets to store
	placing  chan struct{} // a token when there are partitions of which nobody knows yet where they begin

	loops    sync.WaitGroup  // what must not hold the poll loop up
	draining context.Context // done: handlers have had their time since the stop

	mu         sync.Mutex
	parts      map[int32]*partition
	unfinished int
	bytes      int64
	full       bool      // all partitions are paused until the window has room
	bare       time.Time // since when there has been no partition; zero: there are some
	outside    time.Time // since when the group owes us partitions; zero: it does not
	rejoin     bool      // join the group anew at the next poll

	outsideTold time.Time // when it was last told

	lastError   kafka.Error // of the client, and when it was logged
	lastErrorAt time.Time

	storing sync.Mutex              // one store at a time
	ranges  map[*partition]Progress // finished and not yet stored; guarded by storing and mu
}

// NewConsumer joins nothing yet: Run does.
func NewConsumer(cfg ConsumerConfig) (*Consumer, error) {
	if cfg.Handler == nil || cfg.Slots == nil || cfg.Gate == nil || cfg.Window <= 0 || cfg.WindowBytes <= 0 {
		return nil, errors.New("kafkaclient: a consumer needs a handler, slots, a gate and a window")
	}
	client, err := kafka.NewConsumer(cfg.Client.consumerConfig(cfg.Group))
	if err != nil {
		return nil, fmt.Errorf("consumer of %s: %w", cfg.Topic, err)
	}
	cfg.Stall = cmp.Or(cfg.Stall, 30*time.Second)
	return &Consumer{
		cfg: cfg, client: client, seed: maphash.MakeSeed(),
		room: make(chan struct{}, 1), finished: make(chan struct{}, 1), placing: make(chan struct{}, 1),
		parts: map[int32]*partition{}, ranges: map[*partition]Progress{},
	}, nil
}

// pollWait is how long one poll waits for a message; commands of other goroutines wait no longer than that.
const pollWait = 200 * time.Millisecond

// Run polls until ctx is done or it fails, then waits for the handlers within the drain time, commits and leaves the
// group. It keeps polling whatever happens: nothing ever sleeps while it holds the poll loop.
func (c *Consumer) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	unfollow := c.followStop(ctx)
	defer unfollow()
	if err := c.join(ctx); err != nil {
		return err
	}
	for _, loop := range []func(context.Context){c.storeLoop, c.placeLoop, c.watchLoop, c.memberLoop} {
		c.loops.Go(func() { loop(ctx) })
	}
	var failed error
	for ctx.Err() == nil && failed == nil {
		c.resume()
		if c.waitForRoom(ctx) {
			c.pauseAll()
		}
		if failed = c.joinAgain(ctx); failed == nil {
			failed = c.handle(c.client.Poll(int(pollWait.Milliseconds())))
		}
	}
	stop()
	return errors.Join(failed, c.shutDown())
}

// handle takes one event of the client. Only a fatal error, or a topic that is not the same any more, ends the consumer.
func (c *Consumer) handle(ev kafka.Event) error {
	switch e := ev.(type) {
	case *kafka.Message:
		return c.take(e)
	case kafka.PartitionEOF:
		c.reached(e.Partition, int64(e.Offset))
	case kafka.Error:
		if e.IsFatal() {
			return fmt.Errorf("consumer of %s: %w", c.cfg.Topic, e)
		}
		c.noteError(e)
	case kafka.OffsetsCommitted:
		if e.Error != nil && !isCode(e.Error, kafka.ErrNoOffset) {
			c.cfg.Log.Warn("offset commit failed; the records may be redelivered", "topic", c.cfg.Topic, "error", e.Error)
		}
	}
	return nil
}

// noteError logs an error event; the client repeats some of them several times a second.
func (c *Consumer) noteError(e kafka.Error) {
	c.mu.Lock()
	repeated := c.lastError.Code() == e.Code() && time.Since(c.lastErrorAt) < 10*time.Second
	if !repeated {
		c.lastError, c.lastErrorAt = e, time.Now()
	}
	c.mu.Unlock()
	if !repeated {
		c.cfg.Log.Warn("kafka client", "topic", c.cfg.Topic, "error", e.Error())
	}
}

func isCode(err error, code kafka.ErrorCode) bool {
	ke, ok := errors.AsType[kafka.Error](err)
	return ok && ke.Code() == code
}

// take accepts a received record and starts it, unless an earlier one of its key is unfinished. Offsets that run backwards
// are those of another topic of this name, or of one that lost records with a broker: going on would leave out what
// stands below (hazard H11).
func (c *Consumer) take(km *kafka.Message) error {
	m := fromKafka(km, c.cfg.Topic)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.parts[m.Partition]
	if p == nil || p.paused == unplaced {
		c.cfg.Log.Error("record of a partition that is not ours to read, not handled", "topic", m.Topic, "partition", m.Partition, "offset", m.Offset)
		return nil
	}
	if m.Offset < p.next {
		return fmt.Errorf("offsets of %s[%d] run backwards, from %d to %d: the topic was created again or has lost records", m.Topic, m.Partition, p.next, m.Offset)
	}
	if p.next == 0 && m.Offset < int64(p.from) {
		c.cutBelow(p, m.Offset)
	}
	c.passed(p, m.Offset)
	m.Received = time.Now()
	it, first := p.enqueue(m, epochOf(km.TopicPartition), c.seed)
	if c.cfg.Due != nil {
		it.due, it.odd = c.cfg.Due(m)
		p.noteOdd(it, 1)
	}
	c.unfinished++
	c.bytes += it.bytes
	if first {
		c.start(it)
	}
	if c.cfg.Due != nil && p.waiting() >= c.cfg.Window {
		c.pause(p, "waiting")
	}
	return nil
}

// fromKafka copies nothing: the client hands every message its own memory.
func fromKafka(km *kafka.Message, topic string) Message {
	m := Message{Topic: topic, Partition: km.TopicPartition.Partition, Offset: int64(km.TopicPartition.Offset), Key: km.Key, Value: km.Value, Timestamp: km.Timestamp}
	if len(km.Headers) > 0 {
		m.Headers = make([]Header, len(km.Headers))
	}
	for i, h := range km.Headers {
		m.Headers[i] = Header{Key: h.Key, Value: h.Value}
	}
	return m
}
