package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/billing/internal/platform/kafkaclient"
)

// maxInsert bounds the rows of one transaction.
const maxInsert = 500

var (
	errLeaseLost = errors.New("another instance lists the dead letters")
	errReassign  = errors.New("the dead-letter topic has other partitions")
)

// IngesterConfig says what is listed.
type IngesterConfig struct {
	Topic string        // the dead-letter topic
	Main  string        // the main topic, which the origins refer to
	Lease time.Duration // default 15 s: how long a dead instance may still be the one reader
	Log   *slog.Logger
}

// Ingester lists every record of the dead-letter topic, once.
type Ingester struct {
	cfg    IngesterConfig
	rows   inserter
	topics Topics
	reader Reader
	lease  lease
}

// NewIngester checks the settings.
func NewIngester(cfg IngesterConfig, pool *pgxpool.Pool, topics Topics, reader Reader, decode Decode) (*Ingester, error) {
	if cfg.Topic == "" || cfg.Main == "" || cfg.Log == nil || pool == nil || topics == nil || reader == nil || decode == nil {
		return nil, errors.New("dead letters: topic, main topic, log, pool, topics, reader and decoder are required")
	}
	if cfg.Lease == 0 {
		cfg.Lease = 15 * time.Second
	}
	l := lease{pool: pool, name: "dead-letters:" + cfg.Topic, owner: uuid.New(), term: cfg.Lease}
	return &Ingester{cfg: cfg, rows: inserter{pool: pool, lease: l, decode: decode, main: cfg.Main}, topics: topics, reader: reader, lease: l}, nil
}

// Run lists until the context ends. While another instance holds the lease it only waits for it; no error ends it.
func (i *Ingester) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		pause := i.stopped(ctx, i.listWhileHeld(ctx))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// stopped says why the listing stopped, and how long to wait until it starts again.
func (i *Ingester) stopped(ctx context.Context, err error) time.Duration {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errReassign):
		i.cfg.Log.Info("the dead-letter topic has changed, its listing starts again", "topic", i.cfg.Topic)
		return 0
	case errors.Is(err, errLeaseLost):
		i.cfg.Log.Debug("dead letters are listed by another instance", "topic", i.cfg.Topic)
	default:
		i.cfg.Log.Warn("listing dead letters stopped, it starts again", "topic", i.cfg.Topic, "error", err)
	}
	return i.lease.term / 3
}

// listWhileHeld lists as the one reader until the lease is lost, the topic changes or something fails.
func (i *Ingester) listWhileHeld(ctx context.Context) (err error) {
	if held, err := i.lease.hold(ctx); err != nil {
		return err
	} else if !held {
		return errLeaseLost
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if i.lease.release(last) != nil {
			i.cfg.Log.Debug("lease not released, it will run out", "lease", i.lease.name)
		}
	}()
	inc, err := i.open(ctx)
	if err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	read := make(chan step, maxInsert)
	hand := func(s step) error {
		select {
		case read <- s:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	work.Go(func() error { return i.keepLease(ctx, inc) })
	work.Go(func() error {
		return i.reader.ReadFrom(ctx, i.cfg.Topic, inc.next,
			func(m kafkaclient.Message) error { return hand(step{m.Partition, m.Offset + 1, &m}) },
			func(partition int32, next int64) error { return hand(step{partition, next, nil}) })
	})
	work.Go(func() error { return i.insertAll(ctx, inc, read) })
	return work.Wait()
}

// step is how far a partition was read: by a record, or to its end, where the last offsets may be no records.
type step struct {
	partition int32
	next      int64
	record    *kafkaclient.Message // nil: the end
}

// insertAll writes in natural batches: what gathered while the last one was written goes next, so that nothing waits for
// a timer. An end that only says what the record before it said is not written.
func (i *Ingester) insertAll(ctx context.Context, inc incarnation, read <-chan step) error {
	listed := map[int32]int64{}
	for {
		var records []kafkaclient.Message
		next := map[int32]int64{}
		add := func(s step) {
			if s.record == nil && s.next <= listed[s.partition] {
				return
			}
			listed[s.partition], next[s.partition] = s.next, s.next
			if s.record != nil {
				records = append(records, *s.record)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-read:
			add(s)
		}
		for range min(len(read), maxInsert-1) {
			add(<-read)
		}
		if len(next) == 0 {
			continue
		}
		if err := i.rows.insert(ctx, inc, records, next); err != nil {
			return err
		}
	}
}

// keepLease renews the lease and notices that the topic was created again or got more partitions.
func (i *Ingester) keepLease(ctx context.Context, inc incarnation) error {
	tick := time.NewTicker(i.lease.term / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if held, err := i.lease.hold(ctx); err != nil {
			return err
		} else if !held {
			return errLeaseLost
		}
		now, err := describe(ctx, i.topics, i.cfg.Topic)
		if err != nil {
			return err
		}
		if now.ID != inc.id || now.Partitions != len(inc.next) {
			return errReassign
		}
	}
}

// incarnation is the topic as it was when the reading began.
type incarnation struct {
	topic  string
	id     uuid.UUID
	mainID uuid.UUID
	next   map[int32]int64
}

// open finds where to begin. New and empty partitions get their position at once (hazard H13).
func (i *Ingester) open(ctx context.Context) (incarnation, error) {
	inc := incarnation{topic: i.cfg.Topic}
	dead, err := describe(ctx, i.topics, i.cfg.Topic)
	if err != nil {
		return inc, err
	}
	main, err := describe(ctx, i.topics, i.cfg.Main)
	if err != nil {
		return inc, err
	}
	inc.id, inc.mainID = dead.ID, main.ID
	starts, err := i.topics.Starts(ctx, i.cfg.Topic)
	if err != nil {
		return inc, fmt.Errorf("first offsets of %s: %w", i.cfg.Topic, err)
	}
	if err := i.rows.addPositions(ctx, inc, starts); err != nil {
		return inc, err
	}
	if inc.next, err = positions(ctx, i.rows.pool, inc.id); err != nil {
		return inc, err
	}
	for p, start := range starts {
		if inc.next[p] < start {
			i.cfg.Log.Error("dead letters were removed from the topic before they were listed",
				"topic", i.cfg.Topic, "partition", p, "from", inc.next[p], "to", start)
			inc.next[p] = start
		}
	}
	return inc, nil
}

// describe is the topic, or an error when it does not exist.
func describe(ctx context.Context, topics Topics, name string) (kafkaclient.Topic, error) {
	found, err := topics.Topics(ctx, []string{name})
	if err != nil {
		return kafkaclient.Topic{}, err
	}
	t, ok := found[name]
	if !ok {
		return t, fmt.Errorf("topic %s does not exist", name)
	}
	return t, nil
}
