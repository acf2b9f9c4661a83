// Package retry decides what happens to a message that was not charged: the next retry topic, the dead-letter topic, a
// short wait, or nothing until a fault that concerns everyone is cured. It never sleeps in a consumer and never commits: it
// publishes, waits for the broker's acknowledgement, and only then lets the offset move.
package retry

import (
	"fmt"
	"time"
)

// maxSkew is how far a due time may lie beyond the tier's delay: the clocks of two instances differ.
const maxSkew = 2 * time.Second

// Tier is one retry topic. Its delay is fixed, so the head of each partition is always the earliest due.
type Tier struct {
	Topic string
	Group string
	Delay time.Duration
}

// Ladder is the way of failing messages: main topic, tiers with growing delay, dead-letter topic.
type Ladder struct {
	main  string
	tiers []Tier
	dlq   string
}

// NewLadder names the topics and groups after the main topic's and the delays: retry-5s, retry-30s, retry-5m.
func NewLadder(topic, group string, delays []time.Duration) Ladder {
	l := Ladder{main: topic, dlq: topic + ".dlq"}
	for _, d := range delays {
		suffix := "retry-" + shortDuration(d)
		l.tiers = append(l.tiers, Tier{Topic: topic + "." + suffix, Group: group + "-" + suffix, Delay: d})
	}
	return l
}

// Main is the topic that orders arrive on.
func (l Ladder) Main() string { return l.main }

// Tiers are the retry topics, shortest delay first.
func (l Ladder) Tiers() []Tier { return l.tiers }

// DeadLetters is the topic of messages that wait for a person.
func (l Ladder) DeadLetters() string { return l.dlq }

// Topics are all of them, main topic first.
func (l Ladder) Topics() []string {
	topics := []string{l.main}
	for _, t := range l.tiers {
		topics = append(topics, t.Topic)
	}
	return append(topics, l.dlq)
}

// rankOf is 0 for the main topic, 1.. for the tiers, -1 for any other topic.
func (l Ladder) rankOf(topic string) int {
	if topic == l.main {
		return 0
	}
	for i, t := range l.tiers {
		if t.Topic == topic {
			return i + 1
		}
	}
	return -1
}

// shortDuration writes 5s, 30s, 5m, 1h, 1m30s.
func shortDuration(d time.Duration) string {
	text := ""
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / u.unit; n > 0 {
			text += fmt.Sprintf("%d%s", n, u.name)
			d %= u.unit
		}
	}
	return text
}
