package kafkaclient

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// PauseUnawares pauses a partition in the client alone, as a fault of the client would.
func (c *Consumer) PauseUnawares(partition int32) error {
	return c.client.Pause([]kafka.TopicPartition{c.tp(partition, kafka.OffsetInvalid)})
}

// Break raises a fatal error in the client, as librdkafka does by itself.
func (p *Producer) Break() {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.session.client.TestFatalError(kafka.ErrOutOfOrderSequenceNumber, "made by a test")
}

// SetPatience is how long a publish may take.
func (p *Producer) SetPatience(d time.Duration) { p.patience = d }

// RebuildWaits are the waits before the client is replaced that the times of fatal errors lead to.
func RebuildWaits(at ...time.Time) (waits []time.Duration) {
	var b backoff
	for _, t := range at {
		waits = append(waits, b.next(t))
	}
	return waits
}
