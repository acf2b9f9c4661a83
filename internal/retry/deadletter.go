package retry

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

// maxTopicName is the broker's own limit.
const maxTopicName = 249

// DeadLetter is what the headers of a dead record say. Anybody may write to the topic, so every field has a value that
// means "cannot be told", and every text is safe to store and to show.
type DeadLetter struct {
	Message      kafkaclient.Message
	Failures     int // 0: cannot be told
	Class        failure.Class
	Reason       failure.Reason // Unclassified when it is missing or not on the list
	Error        string
	OriginTopic  string // empty: the origin cannot be told, partition and offset mean nothing
	OriginPart   int32
	OriginOffset int64
	OriginTime   time.Time // zero: cannot be told
	FirstFailure time.Time // zero: cannot be told
	ReplayCount  int
	ReplayID     uuid.UUID // of the replay that ended here; zero: none
	Parked       uuid.UUID // where the body is kept in the database; zero: it is the record's own (hazard H14)
}

// OpenDeadLetter reads the headers of a record of the dead-letter topic. It never fails.
func OpenDeadLetter(m kafkaclient.Message) DeadLetter {
	h := headersOf(m)
	d := DeadLetter{Message: m, Reason: failure.Reason(h.single(HeaderErrorReason)), Error: clip(h.single(HeaderError), maxErrorText)}
	if !d.Reason.Known() {
		d.Reason = failure.Unclassified
	}
	if d.Class = failure.Class(h.single(HeaderErrorClass)); !KnownClass(d.Class) {
		d.Class = d.Reason.Class()
	}
	if n, ok := h.number(HeaderAttempt, maxReplayCount); ok {
		d.Failures = int(n)
	}
	if n, ok := h.number(HeaderReplayCount, maxReplayCount); ok {
		d.ReplayCount = int(n)
	}
	if id, err := uuid.Parse(h.single(HeaderParked)); err == nil && m.Value == nil {
		d.Parked = id
	}
	c := h.claim()
	d.OriginTopic, d.OriginPart, d.OriginOffset, d.OriginTime = c.Topic, c.Part, c.Offset, c.Time
	d.FirstFailure, d.ReplayID = c.FirstFailure, c.ReplayID
	return d
}

// Replay is the record that sends the message back to the topic: key and value byte for byte, the origin kept, a new
// ladder begun, nothing left of the error. A zero notBefore sets no due time. The record carries no timestamp: the
// producer gives it a fresh one, so that retention counts from now (hazard H12).
func (d DeadLetter) Replay(topic string, id uuid.UUID, notBefore time.Time) kafkaclient.Record {
	hs := foreign(d.Message.Headers)
	set := func(k, v string) { hs = append(hs, kafkaclient.Header{Key: k, Value: []byte(v)}) }
	set(HeaderAttempt, "0")
	if d.OriginTopic != "" {
		set(HeaderOriginalTopic, d.OriginTopic)
		set(HeaderOriginalPartition, strconv.Itoa(int(d.OriginPart)))
		set(HeaderOriginalOffset, strconv.FormatInt(d.OriginOffset, 10))
		if !d.OriginTime.IsZero() {
			set(HeaderOriginalTimestamp, millis(d.OriginTime))
		}
	}
	if !d.FirstFailure.IsZero() {
		set(HeaderFirstFailureAt, millis(d.FirstFailure))
	}
	if !notBefore.IsZero() {
		set(HeaderNotBefore, millis(notBefore))
	}
	set(HeaderReplayCount, strconv.Itoa(d.ReplayCount+1))
	set(HeaderReplayID, id.String())
	if trace := headersOf(d.Message).single(HeaderTraceparent); trace != "" {
		set(HeaderTraceparent, trace)
	}
	return kafkaclient.Record{Topic: topic, Key: d.Message.Key, Value: d.Message.Value, Headers: hs}
}

// KnownClass reports whether the class is on the list of package failure.
func KnownClass(c failure.Class) bool {
	switch c {
	case failure.ClassInvalid, failure.ClassConflict, failure.ClassRejected, failure.ClassDeclined, failure.ClassExhausted,
		failure.ClassUnknown, failure.ClassStale, failure.ClassBug, failure.ClassPoison:
		return true
	}
	return false
}

// topicName reports whether a broker would accept the name.
func topicName(s string) bool {
	const legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return s != "" && len(s) <= maxTopicName && strings.Trim(s, legal) == ""
}
