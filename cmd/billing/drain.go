package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/orders"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/proof"
	"example.com/billing/internal/retry"
)

const (
	drainLook  = time.Second      // between two looks at what is left
	drainTells = 10 * time.Second // between two log lines
	drainSlots = 64
	clockSkew  = 2 * time.Second // as between instances: a due time lies no further ahead than the delay and this
)

// drain hands the records of a topic that is not read any more on to the present retry topics (hazard H28). A record is
// acknowledged there before its offset moves, as a record that was retried; it keeps what it stands for. Handed on twice,
// by a drain that was killed, it is one order all the same.
type drain struct {
	topic    pgstore.KnownTopic
	delay    time.Duration // of a retry topic; 0: it was a main topic
	cfg      Config
	tiers    []retry.Tier
	producer *kafkaclient.Producer
	books    books
	opener   *proof.Opener
	began    time.Time
	log      *slog.Logger
	handed   atomic.Int64
}

func newDrain(cfg Config, topic pgstore.KnownTopic, producer *kafkaclient.Producer, books books, log *slog.Logger) *drain {
	d := &drain{topic: topic, delay: delayOf(topic.Name), cfg: cfg, tiers: cfg.ladder().Tiers(), producer: producer, books: books, began: time.Now(), log: log}
	d.opener = &proof.Opener{Ladder: retry.NewLadder(topic.Name, topic.Group, cfg.RetryDelays), Books: books, Router: handBack{}, Clock: time.Now, Log: log}
	return d
}

var tierName = regexp.MustCompile(`\.retry-([^.]+)$`)

// delayOf is the delay that a retry topic is named after; 0 for a main topic.
func delayOf(topic string) time.Duration {
	if parts := tierName.FindStringSubmatch(topic); parts != nil {
		d, _ := time.ParseDuration(parts[1]) // else it is no name that we give
		return d
	}
	return 0
}

// run reads until the group has finished everything that the topic holds.
func (d *drain) run(ctx context.Context, left leftBehind) (handed int64, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	consumer, err := kafkaclient.NewConsumer(d.consumer(stop))
	if err != nil {
		return 0, err
	}
	life, endLife := context.WithCancel(context.WithoutCancel(ctx)) // fates are written until the last handler has ended
	defer endLife()
	var work errgroup.Group
	work.Go(func() error { return d.books.store.Run(life) })
	work.Go(func() error {
		defer endLife()
		defer stop(nil)
		return consumer.Run(ctx)
	})
	work.Go(func() error { defer stop(errDrained); return d.untilRead(ctx, consumer, left) })
	err = work.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, errDrained) {
		err = fmt.Errorf("%s is not drained yet: %w", d.topic.Name, cause)
	}
	return d.handed.Load(), err
}

var errDrained = errors.New("drained")

// untilRead returns nil once nothing is left, also of what other members of the group have read.
func (d *drain) untilRead(ctx context.Context, consumer *kafkaclient.Consumer, left leftBehind) error {
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for told := d.began; ; {
		unfinished, partitions := 0, consumer.State()
		for _, p := range partitions {
			unfinished += p.Unfinished
		}
		records, err := left.unread(ctx, d.topic)
		switch {
		case ctx.Err() != nil:
			return nil // run tells the cause
		case err != nil:
			d.log.Warn("cannot tell what is left, asked again", "topic", d.topic.Name, "error", err)
		case records == 0 && unfinished == 0:
			return nil
		case time.Since(told) > drainTells:
			told = time.Now()
			d.log.Info("draining", "topic", d.topic.Name, "handed_on", d.handed.Load(), "left", records)
			if len(partitions) == 0 {
				d.log.Warn("other members of the group have all partitions; one that was killed is a member until its session ends", "topic", d.topic.Name, "group", d.topic.Group)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (d *drain) consumer(stop context.CancelCauseFunc) kafkaclient.ConsumerConfig {
	cfg := kafkaclient.ConsumerConfig{
		Client: d.cfg.kafka(), Topic: d.topic.Name, Group: d.topic.Group, Slots: make(chan struct{}, drainSlots), Gate: openGate{},
		Window: tierWindow, WindowBytes: windowBytes, Drain: drainAtStop, Log: d.log,
		Handler:  func(ctx context.Context, m kafkaclient.Message) error { return d.handOn(ctx, m, stop) },
		Progress: noteIntake(d.books.store, d.topic.ID, func(err error) { stop(err) }),
		Lost:     noteDeleted(d.books.store, d.books.topics, nil),
	}
	if d.delay == 0 {
		return cfg
	}
	longest := d.tiers[len(d.tiers)-1].Delay
	cfg.Due = func(m kafkaclient.Message) (time.Time, bool) { return d.due(m).Add(-longest), false } // no tier keeps it so long
	return cfg
}

// handOn returns nil once the brokers have the record in its new topic. One that no topic takes ends the drain: a person
// must raise the limit, and nothing is lost until then.
func (d *drain) handOn(ctx context.Context, m kafkaclient.Message, stop context.CancelCauseFunc) error {
	record, err := d.record(ctx, m)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := d.producer.Publish(ctx, record); err != nil {
		err = fmt.Errorf("hand %s[%d]@%d on to %s: %w", m.Topic, m.Partition, m.Offset, record.Topic, err)
		if errors.Is(err, kafkaclient.ErrTooLarge) {
			stop(fmt.Errorf("%w: raise its max.message.bytes, see `billing topics plan`", err))
		}
		return err
	}
	d.handed.Add(1)
	return nil
}

func (d *drain) record(ctx context.Context, m kafkaclient.Message) (kafkaclient.Record, error) {
	if d.delay == 0 {
		return d.fromMain(ctx, m)
	}
	return d.fromTier(m), nil
}

// fromMain is an order that arrived on another main topic, and that nobody has tried yet: it waits, and is due at once.
func (d *drain) fromMain(ctx context.Context, m kafkaclient.Message) (kafkaclient.Record, error) {
	event, _ := orders.Decode(m.Value, d.cfg.Currency) // one that cannot be read goes on as well, and ends where such ones end
	e, err := d.opener.Open(ctx, m, event.OrderID)
	if err != nil {
		return kafkaclient.Record{}, err
	}
	fate := retry.Fate{Topic: e.OriginTopic, Partition: e.OriginPart, Offset: e.OriginOffset, Order: event.OrderID, Kind: "waiting"}
	if err := d.books.RecordFate(ctx, fate); err != nil {
		return kafkaclient.Record{}, err
	}
	now := time.Now()
	step := retry.Step{Kind: retry.ToTier, Topic: d.tiers[0].Topic, Failures: e.Failures, NotBefore: now}
	r := e.Record(step, failure.New(failure.Unclassified, "handed on"), now)
	r.Headers = slices.DeleteFunc(r.Headers, func(h kafkaclient.Header) bool { // nothing has failed
		return h.Key == retry.HeaderError || h.Key == retry.HeaderErrorClass || h.Key == retry.HeaderErrorReason ||
			h.Key == retry.HeaderFirstFailureAt && e.FirstFailure.IsZero()
	})
	return r, nil
}

// fromTier is an order that waits: the same record, due at the same time, in the first retry topic that waits so long.
func (d *drain) fromTier(m kafkaclient.Message) kafkaclient.Record {
	due := d.due(m)
	to := d.tiers[len(d.tiers)-1]
	for _, t := range slices.Backward(d.tiers) {
		if t.Delay >= time.Until(due) {
			to = t
		}
	}
	headers := withHeader(m.Headers, retry.HeaderNotBefore, strconv.FormatInt(due.UnixMilli(), 10))
	if n, ok := number(headers, retry.HeaderAttempt); ok && n > int64(len(d.tiers)) { // the ladder is shorter now
		headers = withHeader(headers, retry.HeaderAttempt, strconv.Itoa(len(d.tiers)))
	}
	return kafkaclient.Record{Topic: to.Topic, Key: m.Key, Value: m.Value, Headers: headers}
}

// due is when the record may be charged: its header, or its time and the delay; a full delay from now at the latest.
func (d *drain) due(m kafkaclient.Message) time.Time {
	due := m.Timestamp.Add(d.delay)
	if ms, ok := number(m.Headers, retry.HeaderNotBefore); ok {
		due = time.UnixMilli(ms)
	}
	written := m.Timestamp
	if now := time.Now(); written.After(now) {
		written = now
	}
	if written.Before(d.began) {
		written = d.began
	}
	if latest := written.Add(d.delay + clockSkew); due.After(latest) {
		return latest
	}
	return due
}

// number is the one decimal value of a header.
func number(hs []kafkaclient.Header, key string) (n int64, ok bool) {
	for _, h := range hs {
		if h.Key != key {
			continue
		}
		v, err := strconv.ParseInt(string(h.Value), 10, 64)
		if err != nil || v < 0 || ok {
			return 0, false
		}
		n, ok = v, true
	}
	return n, ok
}

// withHeader sets a header in a copy.
func withHeader(hs []kafkaclient.Header, key, value string) []kafkaclient.Header {
	others := slices.DeleteFunc(slices.Clone(hs), func(h kafkaclient.Header) bool { return h.Key == key })
	return append(others, kafkaclient.Header{Key: key, Value: []byte(value)})
}

// handBack lets a message whose books could not be asked be handled again.
type handBack struct{}

func (handBack) Setback(_ retry.Envelope, _ string, err error, _ failure.Reason) error { return err }

// openGate lets every message pass: nothing is charged, so nothing that holds charges holds a drain.
type openGate struct{}

func (openGate) Enter(context.Context) (leave func(), err error) { return func() {}, nil }
