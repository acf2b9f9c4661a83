// Package proof tells what a record stands for: itself, or another one that failed before.
//
// Headers say so, and anybody may write them. It promises that they are believed only where our own books say the same: a
// forged origin would answer for another record, skew the balance, or hide that record's dead letter behind its own; a
// forged replay would not be counted as an order that arrived. What cannot be proven is never lost: it is an order of its
// own, asked for at the provider before it is sent.
package proof

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// Books tell which records we have sent on ourselves.
type Books interface {
	// SentOn reports whether the record failed before as this order, and so may wait in a retry topic. A zero order is one
	// that cannot be told.
	SentOn(ctx context.Context, topic string, partition int32, offset int64, order uuid.UUID) (bool, error)
	// Replayed is the dead letter that is or was replayed under the id; nil when there is none.
	Replayed(ctx context.Context, id uuid.UUID) (*Replay, error)
	RecordFate(ctx context.Context, f retry.Fate) error
}

// Replay is what the working list says of a replay.
type Replay struct {
	OriginTopic  string // empty: the letter stands for no record of the topics as they are now
	OriginPart   int32
	OriginOffset int64
	BodyHash     []byte // nil: listed before it was kept
	Count        int    // replays of the message, this one included
	TakenBack    bool   // a person dropped or resolved the letter since
	AgeLifted    bool   // an approver has lifted BILLING_MAX_AGE for it
}

// Router hands a message back for a failure that is not its own. retry.Router is the one implementation.
type Router interface {
	Setback(e retry.Envelope, order string, err error, other failure.Reason) error
}

// Opener opens envelopes.
type Opener struct {
	Ladder retry.Ladder
	Books  Books
	Router Router
	Clock  func() time.Time
	Log    *slog.Logger
}

// Open reads the headers of a record that arrived on the ladder, and proves what they claim. An error means that the books
// could not be asked: the message is to be handled again.
func (o *Opener) Open(ctx context.Context, m kafkaclient.Message, order uuid.UUID) (retry.Envelope, error) {
	e := o.Ladder.Open(m, o.Clock())
	var err error
	switch {
	case e.Claim.ReplayID != uuid.Nil:
		err = o.proveReplay(ctx, &e)
	case e.Rank > 0 && e.Claim.Topic != "":
		err = o.proveOrigin(ctx, &e, order)
	}
	if err == nil && e.Rank == 0 && !itself(e) {
		err = o.Books.RecordFate(ctx, retry.Fate{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Order: order, Kind: "replay"})
	}
	if err != nil {
		return e, o.Router.Setback(e, order.String(), err, failure.DatabaseDown)
	}
	return e, nil
}

// proveReplay looks for the dead letter. On a retry topic, where only we write, a replay that the list does not know was
// taken back, and is not charged (hazard H8); on the main topic it is a header that somebody made up.
func (o *Opener) proveReplay(ctx context.Context, e *retry.Envelope) error {
	id := e.Claim.ReplayID
	letter, err := o.Books.Replayed(ctx, id)
	if err != nil {
		return err
	}
	if letter == nil || !letter.of(e.Message) {
		o.logUnproven(e.Message, "no dead letter was replayed as this record")
		if e.Rank > 0 {
			e.Stopped = failure.New(failure.Stopped, "the working list knows of no replay %s of this message", id)
		}
		return nil
	}
	e.ReplayID, e.ReplayCount, e.AgeLifted = id, letter.Count, letter.AgeLifted
	if letter.TakenBack {
		e.Stopped = failure.New(failure.Stopped, "replay %s was taken back: its dead letter was dropped or resolved", id)
	}
	switch c := e.Claim; {
	case c.Topic == "":
	case c.Topic == letter.OriginTopic && c.Part == letter.OriginPart && c.Offset == letter.OriginOffset:
		believe(e)
	default:
		o.logUnproven(e.Message, "the replayed dead letter has another origin")
	}
	return nil
}

// of reports whether the message has the letter's key and value.
func (r *Replay) of(m kafkaclient.Message) bool {
	return r.BodyHash == nil || bytes.Equal(r.BodyHash, BodyHash(m.Key, m.Value))
}

func (o *Opener) proveOrigin(ctx context.Context, e *retry.Envelope, order uuid.UUID) error {
	known, err := o.Books.SentOn(ctx, e.Claim.Topic, e.Claim.Part, e.Claim.Offset, order)
	switch {
	case err != nil:
		return err
	case known:
		believe(e)
	default:
		o.logUnproven(e.Message, "its origin was not sent on as this order")
	}
	return nil
}

// believe makes the record stand for the one that it claims to.
func believe(e *retry.Envelope) {
	c := e.Claim
	e.OriginTopic, e.OriginPart, e.OriginOffset, e.FirstFailure = c.Topic, c.Part, c.Offset, c.FirstFailure
	if !c.Time.IsZero() {
		e.OriginTime = c.Time
	}
}

func itself(e retry.Envelope) bool {
	return e.OriginTopic == e.Message.Topic && e.OriginPart == e.Message.Partition && e.OriginOffset == e.Message.Offset
}

func (o *Opener) logUnproven(m kafkaclient.Message, why string) {
	o.Log.Warn("headers speak of another record, which is not proven: handled as a record of its own",
		"topic", m.Topic, "partition", m.Partition, "offset", m.Offset, "why", why)
}

// BodyHash tells key and value from any other, also nil from empty. A record that was published twice has one, another
// record that claims to be it has another.
func BodyHash(key, value []byte) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %t %d %s%s", key == nil, value == nil, len(key), key, value))
	return sum[:]
}
