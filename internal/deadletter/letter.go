// Package deadletter keeps the working list of what waits for a person, and sends back what that person decides to replay.
//
// The dead-letter topic is the durable log; Postgres holds one row per record of it. The package promises that every
// record of the topic gets exactly one row, that a record published twice counts once, and that a replay which stops
// half-way is taken up again under the same replay id. It never replays by itself, and never copies a payload.
package deadletter

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/failure"
)

// State is what was decided about a dead letter.
type State string

// The states. Open and replaying are unresolved.
const (
	Open      State = "open"
	Replaying State = "replaying" // taken by a replay that has not seen the broker's acknowledgement
	Replayed  State = "replayed"
	Dropped   State = "dropped"
	Resolved  State = "resolved"  // mended by hand
	Duplicate State = "duplicate" // a record that was published twice: the first one counts, and is decided on
)

// States are all of them.
func States() []State { return []State{Open, Replaying, Replayed, Dropped, Resolved, Duplicate} }

// Letter is one row of the working list. Pointers are nil where it cannot be told.
type Letter struct {
	ID int64
	Place
	Topic        string
	State        State
	Class        failure.Class
	Reason       failure.Reason
	Error        string
	Failures     int
	OrderID      *uuid.UUID
	AmountMinor  *int64
	Currency     *string
	OriginTopic  *string
	OriginPart   *int32
	OriginOffset *int64
	OriginAt     *time.Time
	FirstFailure *time.Time
	DeadAt       time.Time
	ReplayCount  int
	ReplayID     *uuid.UUID
	ReplayTarget *string
	FinishedAt   *time.Time
	DuplicateOf  *int64
}

// ErrNotFound means that the working list has no such letter.
var ErrNotFound = errors.New("no such dead letter")

// ErrBehind means that the working list has not caught up with the topic in time: nothing was done.
var ErrBehind = errors.New("the working list has not caught up with the dead-letter topic")

// HeldError means that nothing more was sent, since the line is held or paused.
type HeldError struct{ Reason failure.Reason }

func (e *HeldError) Error() string { return fmt.Sprintf("the line is held: %s", e.Reason) }

// TopicError names a topic that is not a dead-letter topic of this service.
type TopicError struct{ Topic, Want string }

func (e *TopicError) Error() string {
	return fmt.Sprintf("%q is not a dead-letter topic of this service, want %q", e.Topic, e.Want)
}

// TargetError names a target that replays may not go to.
type TargetError struct {
	Target  string
	Allowed []string
}

func (e *TargetError) Error() string {
	return fmt.Sprintf("%q is not a replay target, allowed: %s", e.Target, strings.Join(e.Allowed, ", "))
}
