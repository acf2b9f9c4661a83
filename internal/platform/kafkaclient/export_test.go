package kafkaclient

import "github.com/confluentinc/confluent-kafka-go/v2/kafka"

// PauseUnawares pauses a partition in the client alone, as a fault of the client would.
func (c *Consumer) PauseUnawares(partition int32) error {
	return c.client.Pause([]kafka.TopicPartition{c.tp(partition, kafka.OffsetInvalid)})
}
