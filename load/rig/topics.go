package rig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Records is what a topic holds now, from the given offsets or its beginning.
func Records(ctx context.Context, brokers []string, topic string, from map[int32]int64) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	left, start := map[int32]int64{}, map[int32]kgo.Offset{}
	for p, end := range ends[topic] {
		if end.Offset > from[p] {
			left[p], start[p] = end.Offset, kgo.NewOffset().At(from[p])
		}
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: start})
	var records []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, r)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return records, nil
}

// Stable complains of a group that is still handing partitions over, or has not so many members.
func Stable(ctx context.Context, admin *kadm.Client, members int, groups []string) error {
	described, err := admin.DescribeGroups(ctx, groups...)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if d := described[g]; d.State != "Stable" || len(d.Members) != members {
			return fmt.Errorf("group %s is %s with %d members", g, d.State, len(d.Members))
		}
	}
	return nil
}

// DeleteTopics deletes a topic and those that follow from it.
func (s *Servers) DeleteTopics(ctx context.Context, topic string) error {
	topics, err := s.Admin.ListTopics(ctx)
	errs := []error{err}
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, topic) {
			_, err := s.Admin.DeleteTopic(ctx, name)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
