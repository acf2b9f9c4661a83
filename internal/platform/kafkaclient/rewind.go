package kafkaclient

import (
	"context"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Rewind lets the group begin with the first record that each partition of the topic holds. The brokers refuse it while the
// group has members.
func (a *Admin) Rewind(ctx context.Context, group, topic string) error {
	starts, err := a.Starts(ctx, topic)
	if err != nil {
		return err
	}
	offsets := kafka.ConsumerGroupTopicPartitions{Group: group}
	for p, start := range starts {
		offsets.Partitions = append(offsets.Partitions, kafka.TopicPartition{Topic: &topic, Partition: p, Offset: kafka.Offset(start)})
	}
	res, err := a.client.AlterConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{offsets})
	if err != nil {
		return fmt.Errorf("rewind group %s on %s (all instances must be stopped): %w", group, topic, err)
	}
	for _, g := range res.ConsumerGroupsTopicPartitions {
		for _, tp := range g.Partitions {
			if tp.Error != nil {
				return fmt.Errorf("rewind group %s on %s[%d] (all instances must be stopped): %w", group, topic, tp.Partition, tp.Error)
			}
		}
	}
	return nil
}
