package retry

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

// The headers of a retried or dead record. All times are decimal Unix milliseconds.
const (
	HeaderAttempt           = "x-retry-attempt" // failures so far
	HeaderOriginalTopic     = "x-original-topic"
	HeaderOriginalPartition = "x-original-partition"
	HeaderOriginalOffset    = "x-original-offset"
	HeaderOriginalTimestamp = "x-original-timestamp"
	HeaderFirstFailureAt    = "x-first-failure-at"
	HeaderNotBefore         = "x-not-before"
	HeaderError             = "x-error"
	HeaderErrorClass        = "x-error-class"
	HeaderErrorReason       = "x-error-reason"
	HeaderWaits             = "x-retry-waits" // uncounted waits in tiers
	HeaderReplayCount       = "x-replay-count"
	HeaderReplayID          = "x-replay-id"
	HeaderParked            = "x-parked-body" // id of a body that fits no topic, kept in the database
	HeaderTraceparent       = "traceparent"
)

const (
	maxErrorText   = 1024     // bytes of x-error
	maxForeign     = 16 << 10 // bytes of headers that are not ours and travel on
	maxWaits       = 1000     // of x-retry-waits; more are not counted
	maxReplayCount = 1000
)

// Envelope is what the headers of a record say, after everything that cannot be true has been clamped: a header can be
// missing, forged, broken or repeated, and none of that may lose an order or make a ladder endless.
//
// A record stands for itself, whatever it claims: package proof makes it stand for another one.
type Envelope struct {
	Message      kafkaclient.Message
	Opened       time.Time // when this attempt began
	Rank         int       // of the topic it arrived on: 0 the main topic, 1.. the tiers
	Failures     int       // counted so far
	Waits        int       // uncounted waits so far
	OriginTopic  string
	OriginPart   int32
	OriginOffset int64
	OriginTime   time.Time
	FirstFailure time.Time // zero: none yet
	NotBefore    time.Time // zero: at once
	ReplayCount  int
	ReplayID     uuid.UUID // zero: not replayed
	Traceparent  string
	Tried        bool  // the headers tell of attempts, proven or not: reason enough to ask before sending (hazard H3)
	AgeLifted    bool  // an approver has decided to charge it whatever its age; our books say so, not a header
	Stopped      error // why a person must decide before it is charged; nil: nothing
	Claim        Claim
}

// Claim is what headers say of the record that theirs stands for. Anybody can write them.
type Claim struct {
	Topic        string // empty: no origin, or a broken one
	Part         int32
	Offset       int64
	Time         time.Time // zero: not told
	FirstFailure time.Time // zero: not told
	ReplayID     uuid.UUID // zero: none
}

// Open reads the headers of a record that arrived on the ladder. A count of attempts that is possible is believed on every
// topic: it can only shorten the record's own ladder.
func (l Ladder) Open(m kafkaclient.Message, now time.Time) Envelope {
	rank, h := max(0, l.rankOf(m.Topic)), headersOf(m)
	e := Envelope{
		Message: m, Opened: now, Rank: rank, Failures: rank, OriginTopic: m.Topic, OriginPart: m.Partition, OriginOffset: m.Offset, OriginTime: m.Timestamp,
		Traceparent: h.single(HeaderTraceparent), Claim: h.claim(),
	}
	attempts, counted := h.number(HeaderAttempt, int64(len(l.tiers)))
	if counted {
		e.Failures = int(attempts)
	}
	if rank > 0 {
		if n, ok := h.number(HeaderWaits, maxWaits); ok {
			e.Waits = int(n)
		}
		e.NotBefore, _ = l.dueTime(m, h, rank, now)
	}
	e.Tried = e.Failures > 0 || len(h[HeaderReplayID])+len(h[HeaderReplayCount]) > 0
	return e
}

// claim takes the origin headers together or not at all.
func (h headers) claim() (c Claim) {
	part, ok1 := h.number(HeaderOriginalPartition, 1<<31-1)
	offset, ok2 := h.number(HeaderOriginalOffset, 1<<62)
	if topic := h.single(HeaderOriginalTopic); ok1 && ok2 && topicName(topic) {
		c.Topic, c.Part, c.Offset, c.Time = topic, int32(part), offset, h.millis(HeaderOriginalTimestamp)
	}
	c.FirstFailure = h.millis(HeaderFirstFailureAt)
	if id := h.single(HeaderReplayID); id != "" {
		c.ReplayID, _ = uuid.Parse(id)
	}
	return c
}

// Due is when a record of a tier may be handled. It is cut when header and record tell a time that no delay explains.
func (l Ladder) Due(m kafkaclient.Message, now time.Time) (at time.Time, cut bool) {
	if rank := l.rankOf(m.Topic); rank > 0 {
		return l.dueTime(m, headersOf(m), rank, now)
	}
	return time.Time{}, false
}

// dueTime is never early, and never later than a full delay after this instance received the record: a clock that is
// ahead, or a forged header, must not make it wait for ever (hazard H24). It is the header, else the record's timestamp plus
// the delay. The instant of receiving stands still, unlike now, which is for a record that nobody received.
func (l Ladder) dueTime(m kafkaclient.Message, h headers, rank int, now time.Time) (at time.Time, cut bool) {
	delay := l.tiers[rank-1].Delay
	due := h.millis(HeaderNotBefore)
	if due.IsZero() {
		due = m.Timestamp.Add(delay)
	}
	received := m.Received
	if received.IsZero() {
		received = now
	}
	if latest := received.Add(delay + maxSkew); due.After(latest) {
		return latest, true
	}
	return due, false
}

// Record is the record to publish for a step: key and value byte for byte, our headers set anew, foreign ones kept
// within bounds.
func (e Envelope) Record(step Step, f *failure.Error, now time.Time) kafkaclient.Record {
	first := e.FirstFailure
	if first.IsZero() {
		first = now
	}
	hs := foreign(e.Message.Headers)
	set := func(k, v string) { hs = append(hs, kafkaclient.Header{Key: k, Value: []byte(v)}) }
	set(HeaderAttempt, strconv.Itoa(step.Failures))
	set(HeaderOriginalTopic, e.OriginTopic)
	set(HeaderOriginalPartition, strconv.Itoa(int(e.OriginPart)))
	set(HeaderOriginalOffset, strconv.FormatInt(e.OriginOffset, 10))
	set(HeaderOriginalTimestamp, millis(e.OriginTime))
	set(HeaderFirstFailureAt, millis(first))
	if !step.NotBefore.IsZero() {
		set(HeaderNotBefore, millis(step.NotBefore))
	}
	if step.Waits > 0 {
		set(HeaderWaits, strconv.Itoa(step.Waits))
	}
	set(HeaderError, clip(f.Error(), maxErrorText))
	set(HeaderErrorClass, string(f.Class()))
	set(HeaderErrorReason, string(f.Reason))
	if e.ReplayID != uuid.Nil {
		set(HeaderReplayCount, strconv.Itoa(e.ReplayCount))
		set(HeaderReplayID, e.ReplayID.String())
	}
	if e.Traceparent != "" {
		set(HeaderTraceparent, e.Traceparent)
	}
	return kafkaclient.Record{Topic: step.Topic, Key: e.Message.Key, Value: e.Message.Value, Headers: hs}
}

// Ours reports whether the header is one that this service sets.
func Ours(key string) bool {
	switch key {
	case HeaderAttempt, HeaderOriginalTopic, HeaderOriginalPartition, HeaderOriginalOffset, HeaderOriginalTimestamp,
		HeaderFirstFailureAt, HeaderNotBefore, HeaderError, HeaderErrorClass, HeaderErrorReason, HeaderWaits,
		HeaderReplayCount, HeaderReplayID, HeaderParked, HeaderTraceparent:
		return true
	}
	return false
}

// foreign are the headers that are not ours, as many as fit: a large one does not keep the small ones behind it from
// travelling on.
func foreign(all []kafkaclient.Header) []kafkaclient.Header {
	var kept []kafkaclient.Header
	size := 0
	for _, h := range all {
		if Ours(h.Key) {
			continue
		}
		if more := len(h.Key) + len(h.Value) + 16; size+more <= maxForeign {
			kept, size = append(kept, h), size+more
		}
	}
	return kept
}

// headers are our own headers of a record; a repeated one counts as missing.
type headers map[string][]string

func headersOf(m kafkaclient.Message) headers {
	var hs headers
	for _, h := range m.Headers {
		if Ours(h.Key) && len(h.Value) <= maxErrorText {
			if hs == nil {
				hs = headers{}
			}
			hs[h.Key] = append(hs[h.Key], string(h.Value))
		}
	}
	return hs
}

func (h headers) single(key string) string {
	if v := h[key]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// number is a decimal from 0 to high.
func (h headers) number(key string, high int64) (int64, bool) {
	text := h.single(key)
	if text == "" { // nearly always: an error would cost an allocation
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && n <= high
}

// millis is zero when the header tells no instant.
func (h headers) millis(key string) (t time.Time) {
	if n, ok := h.number(key, 1<<50); ok {
		t = time.UnixMilli(n)
	}
	return t
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// clip makes a text safe for a header and a log line: bounded, valid UTF-8, and nothing that steers a terminal or turns
// the text around.
func clip(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
