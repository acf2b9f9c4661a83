package hold

import "time"

// unpublished are the messages whose retry or dead-letter record no broker took, with the topic that it was for. A hold for
// that ends when every such topic has taken a record again, or when nobody waits for one any more: a record that another
// topic takes proves nothing, and the line would be held and let go in turns.
type unpublished map[string]refused

type refused struct {
	topic string
	at    time.Time
}

// forgottenAfter forgets a message that did not come again: its partition went to another instance.
const forgottenAfter = time.Minute

func (u unpublished) note(record, topic string, now time.Time) { u[record] = refused{topic, now} }

// published forgets those that waited for the topic.
func (u unpublished) published(topic string) {
	for record, r := range u {
		if r.topic == topic {
			delete(u, record)
		}
	}
}

// settled forgets a message that was charged after all, and reports whether nobody waits any more.
func (u unpublished) settled(record string, now time.Time) bool {
	delete(u, record)
	return u.nobody(now)
}

// nobody reports whether no message waits any more.
func (u unpublished) nobody(now time.Time) bool {
	for other, r := range u {
		if now.Sub(r.at) > forgottenAfter {
			delete(u, other)
		}
	}
	return len(u) == 0
}
