package kafkaclient

import (
	"context"
	"fmt"
	"slices"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Members is the number of members of a group.
func (a *Admin) Members(ctx context.Context, group string) (int, error) {
	g, err := a.describeGroup(ctx, group)
	return len(g.Members), err
}

// HasReader reports whether a member of the group reads the topic. While partitions are handed over nobody can tell which
// member reads what: then any member counts. A member that was killed counts until its session ends.
func (a *Admin) HasReader(ctx context.Context, group, topic string) (bool, error) {
	g, err := a.describeGroup(ctx, group)
	if err != nil {
		return false, err
	}
	if g.State != kafka.ConsumerGroupStateStable {
		return len(g.Members) > 0, nil
	}
	return slices.ContainsFunc(g.Members, func(m kafka.MemberDescription) bool {
		return slices.ContainsFunc(m.Assignment.TopicPartitions, func(tp kafka.TopicPartition) bool { return tp.Topic != nil && *tp.Topic == topic })
	}), nil
}

// describeGroup describes a group; one that was never there has no members.
func (a *Admin) describeGroup(ctx context.Context, group string) (kafka.ConsumerGroupDescription, error) {
	res, err := a.client.DescribeConsumerGroups(ctx, []string{group})
	if err != nil {
		return kafka.ConsumerGroupDescription{}, fmt.Errorf("describe group %s: %w", group, err)
	}
	g := res.ConsumerGroupDescriptions[0]
	if code := g.Error.Code(); code != kafka.ErrNoError && code != kafka.ErrGroupIDNotFound {
		return kafka.ConsumerGroupDescription{}, fmt.Errorf("describe group %s: %w", group, g.Error)
	}
	return g, nil
}
