package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// leftTopic is a topic with orders that the present settings do not read.
type leftTopic struct {
	Topic   string
	Group   string // that has read it so far
	Records int64  // that its group has not finished
	Read    bool   // by an instance with other settings
}

// next says what is wrong and which command comes next.
func (t leftTopic) next(l retry.Ladder) string {
	setting := "BILLING_TOPIC"
	if strings.HasPrefix(t.Topic, l.Main()+".retry-") {
		setting = "BILLING_RETRY_DELAYS"
	}
	return fmt.Sprintf("%d orders wait in %s, which %s does not name any more: run `billing topics drain %s` with these settings, or set it back", t.Records, t.Topic, setting, t.Topic)
}

// leftBehind finds the topics that may have been left behind: those that the database has worked with (hazard H28), and retry
// topics of our main topic that it has not.
type leftBehind struct {
	reader *kafkaclient.Reader
	store  *pgstore.Store
	ladder retry.Ladder
	group  string
}

// look lists what is left, by name. A topic that does not exist any more has nothing to read.
func (b leftBehind) look(ctx context.Context) (left []leftTopic, err error) {
	candidates, err := b.candidates(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range candidates {
		records, err := b.unread(ctx, t)
		if err != nil {
			return nil, err
		}
		if records == 0 {
			continue
		}
		read, err := b.reader.HasReader(ctx, t.Group, t.Name)
		if err != nil {
			return nil, err
		}
		left = append(left, leftTopic{t.Name, t.Group, records, read})
	}
	return left, nil
}

// candidates are the topics that exist, that we do not read now, and that some group of ours has read or should have.
func (b leftBehind) candidates(ctx context.Context) ([]pgstore.KnownTopic, error) {
	known, err := b.store.KnownTopics(ctx)
	if err != nil {
		return nil, err
	}
	names, err := b.reader.Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if suffix, isTier := strings.CutPrefix(name, b.ladder.Main()+".retry-"); isTier && !slices.ContainsFunc(known, named(name)) {
			known = append(known, pgstore.KnownTopic{Name: name, Group: b.group + "-retry-" + suffix})
		}
	}
	known = slices.DeleteFunc(known, func(t pgstore.KnownTopic) bool {
		return t.Group == "" || slices.Contains(b.ladder.Topics(), t.Name) || !slices.Contains(names, t.Name)
	})
	return known, b.identify(ctx, known)
}

func named(name string) func(pgstore.KnownTopic) bool {
	return func(t pgstore.KnownTopic) bool { return t.Name == name }
}

// identify gives the topics that the database does not know their ids, and refuses others than it knows.
func (b leftBehind) identify(ctx context.Context, topics []pgstore.KnownTopic) error {
	if len(topics) == 0 {
		return nil
	}
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	now, err := b.reader.Topics(ctx, names)
	if err != nil {
		return err
	}
	var other []string
	for i, t := range topics {
		switch id := now[t.Name].ID; t.ID {
		case id:
		case uuid.Nil:
			topics[i].ID = id
		default:
			other = append(other, t.Name)
		}
	}
	if len(other) > 0 {
		return &pgstore.RecreatedError{Topics: other}
	}
	return nil
}

// unread counts what the group has not finished. How far it is stays in our database as well: the brokers forget the offsets
// of a topic that nobody reads, and records that were charged long ago would look like orders that wait.
func (b leftBehind) unread(ctx context.Context, t pgstore.KnownTopic) (sum int64, err error) {
	ends, err := b.reader.Ends(ctx, t.Name)
	if err != nil {
		return 0, err
	}
	committed, err := b.reader.Committed(ctx, t.Group, t.Name, len(ends))
	if err != nil {
		return 0, err
	}
	from := map[int32]int64{}
	for p := range ends {
		from[p] = committed[p]
		if int(p) < len(t.ReadTo) {
			from[p] = max(from[p], t.ReadTo[p])
		}
	}
	if err := b.noteDeleted(ctx, t, from); err != nil { // before ReadTo moves past it
		return 0, err
	}
	unread, err := b.reader.Unread(ctx, t.Name, from)
	if err != nil {
		return 0, err
	}
	readTo := make([]int64, len(ends))
	for p, end := range ends {
		if readTo[p] = from[p]; unread[p] == 0 { // what is behind are no records
			readTo[p] = max(end, from[p])
		}
		sum += unread[p]
	}
	if !slices.Equal(readTo, t.ReadTo) {
		t.ReadTo = readTo
		return sum, b.store.NoteRead(ctx, t)
	}
	return sum, nil
}

// noteDeleted keeps what retention deleted of a topic that nobody reads (hazard H12); an instance that reads it tells by itself.
// Where neither the group nor our books have been anywhere, nobody knows what there was.
func (b leftBehind) noteDeleted(ctx context.Context, t pgstore.KnownTopic, from map[int32]int64) error {
	starts, err := b.reader.Starts(ctx, t.Name)
	if err != nil {
		return err
	}
	taken, err := b.store.Taken(ctx, t.ID)
	if err != nil {
		return err
	}
	var gone []pgstore.Deleted
	for p, start := range starts {
		if at := max(from[p], taken[p]); at > 0 && start > at {
			gone = append(gone, pgstore.Deleted{TopicID: t.ID, Topic: t.Name, Partition: p, From: at, To: start})
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if read, err := b.reader.HasReader(ctx, t.Group, t.Name); err != nil || read {
		return err
	}
	for _, d := range gone {
		if _, err := b.store.NoteDeleted(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// otherReaders is how long a start waits for instances with other settings that still read a topic: one that was killed is a
// member of its group until its session ends, 10 s by default.
const otherReaders = 15 * time.Second

// refuse ends with an error that names what is left. What another instance reads is on its way: in a rolling change of
// settings that is as it should be, and the watch tells of what that instance leaves in the end.
//
// A topic that cannot be looked into now, without a leader say, does not keep the present orders waiting: the watch looks on.
func (b leftBehind) refuse(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, topicsDeadline+otherReaders)
	defer cancel()
	for began := time.Now(); ; {
		left, err := b.look(ctx)
		if _, recreated := errors.AsType[*pgstore.RecreatedError](err); recreated {
			return err
		}
		if err != nil {
			log.Warn("cannot tell whether orders wait in topics of other settings, looked for again while the service runs", "error", err)
			return nil
		}
		var refused []error
		for _, t := range left {
			if !t.Read {
				refused = append(refused, errors.New(t.next(b.ladder)))
			}
		}
		if len(refused) > 0 || len(left) == 0 || time.Since(began) > otherReaders {
			return errors.Join(refused...)
		}
		log.Info("orders wait in a topic of other settings, which another instance still reads", "topic", left[0].Topic, "records", left[0].Records)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
