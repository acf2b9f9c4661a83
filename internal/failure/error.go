package failure

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error is a failure with its reason. Errors without one are Unclassified, which holds the line.
type Error struct {
	Reason     Reason
	Unknown    bool          // money may have moved, in this attempt or in an earlier one of the same order
	Answered   bool          // the provider took a decision in this very attempt, so it works
	Final      bool          // nothing that happens by itself will change it: the message's own, whatever the reason
	Refused    bool          // an answer from 400 to 499; the design document's plain table ends a message with it
	Uncounted  bool          // it says nothing about this order, which waits: no attempt is counted
	Verdict    Verdict       // on its way to the dead letters
	RetryAfter time.Duration // what the dependency asked for; 0 when it did not
	Detail     string        // for people: no payload, no key, no token
	Err        error         // what lies below, if anything
}

// Verdict says whether a message that cannot succeed may die now. Too many at once are withheld (hazards H25, H26).
type Verdict uint8

// The verdicts.
const (
	NotAsked Verdict = iota
	Dies             // it goes to the dead letters
	Withheld         // it waits, undecided, until the flood of dead letters ends or a person lets it go
)

// New makes a failure whose detail is formatted like fmt.Errorf; %w sets the error below.
func New(r Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: r, Detail: err.Error(), Err: errors.Unwrap(err), Unknown: r.Money() == MayHaveMoved}
}

func (e *Error) Error() string { return string(e.Reason) + ": " + e.Detail }

func (e *Error) Unwrap() error { return e.Err }

// Fault is whose fault the failure is under the policy.
func (e *Error) Fault(p Policy) Fault {
	fault := p.Fault(e.Reason)
	switch {
	case e.Final, e.Refused && p == Document:
		return OfMessage
	case e.Uncounted && fault == OfDependency && p == Hold: // the document's plain table counts each of them
		return OfMoment
	}
	return fault
}

// Class is the class of the dead letter that this failure ends in: what cannot be told apart from a charge is unknown,
// whatever the last attempt said (hazard H5).
func (e *Error) Class() Class {
	c := e.Reason.Class()
	if e.Unknown && (c == ClassExhausted || c == ClassRejected || c == ClassStale) {
		return ClassUnknown
	}
	return c
}

// Of finds the failure in an error. A cancelled context is our own shutdown; any other error has no opinion.
func Of(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Reason: ShuttingDown, Detail: err.Error(), Err: err}
	}
	return &Error{Reason: Unclassified, Detail: err.Error(), Err: err, Unknown: true}
}
