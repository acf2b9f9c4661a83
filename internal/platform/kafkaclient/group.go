package kafkaclient

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// Readers tells which client reads each partition of the topic, as the group knows it; a partition that nobody reads now is
// missing. The client's name is what it says of itself: two programs may have the same.
func (a *Admin) Readers(ctx context.Context, group, topic string) (map[int32]string, error) {
	g, err := a.describeGroup(ctx, group)
	if err != nil {
		return nil, err
	}
	readers := map[int32]string{}
	for _, m := range g.Members {
		for _, tp := range m.Assignment.TopicPartitions {
			if tp.Topic != nil && *tp.Topic == topic {
				readers[tp.Partition] = fmt.Sprintf("client %q at %s", m.ClientID, strings.TrimPrefix(m.Host, "/"))
			}
		}
	}
	return readers, nil
}
