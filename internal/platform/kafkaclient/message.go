// Package kafkaclient is the mechanism of reading and writing Kafka topics, without a word about orders or money.
//
// It promises three things. An offset is committed only when every record before it has a durable fate, whatever the
// order in which they finish. Records of one key are never handled at the same time. What is published is acknowledged
// by all in-sync replicas before Publish returns. It is the only importer of confluent-kafka-go.
package kafkaclient

import (
	"errors"
	"strconv"
	"time"
)

// Message is one record as it was read.
type Message struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte // nil and empty differ
	Value     []byte // nil is a tombstone
	Headers   []Header
	Timestamp time.Time // milliseconds, as the producer or the broker set it

	Received time.Time // when this instance received it; it does not change when the message is handled again

	Since time.Time // when this instance handled it first; zero at the first time
	Again bool      // its group has committed it before, and our books do not know of it, see ConsumerConfig.Taken
	Alone bool      // nothing else of its partition is handled meanwhile but what was alone before, see ConsumerConfig.Careful
	Tries int       // how often this instance has handled it before, without a durable fate
}

// Name is the record's place: topic/partition/offset.
func (m *Message) Name() string {
	return m.Topic + "/" + strconv.Itoa(int(m.Partition)) + "/" + strconv.FormatInt(m.Offset, 10)
}

// What a message takes in memory beside its bytes.
const (
	messageOverhead = 512
	headerOverhead  = 96 // of each: a record of 1 MB can hold 300,000 empty ones, which are 30 MB here
)

// size is about what the message takes in memory.
func (m *Message) size() int64 {
	size := messageOverhead + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		size += headerOverhead + len(h.Key) + len(h.Value)
	}
	return int64(size)
}

// Header is one record header. Keys may repeat.
type Header struct {
	Key   string
	Value []byte
}

// Record is what is to be published. Key and value go out byte for byte.
type Record struct {
	Topic   string
	Key     []byte
	Value   []byte
	Headers []Header
}

// ErrTooLarge marks a record that the broker refuses for its size, for good.
var ErrTooLarge = errors.New("record too large")
