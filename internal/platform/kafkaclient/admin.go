package kafkaclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/google/uuid"
)

// Admin describes and creates topics and reads offsets. Every call ends with its context.
type Admin struct {
	client  *kafka.AdminClient
	closing func()
}

// NewAdmin makes a client for administration. It borrows the connections of a consumer that never subscribes: in librdkafka
// 2.14 a client without a group dies of a null pointer, and the process with it, when offsets are asked for while a group's
// coordinator moves or is not there yet, at any restart of a broker (docs/adr/0010).
func NewAdmin(cfg Config) (*Admin, error) {
	owner, err := kafka.NewConsumer(cfg.with(kafka.ConfigMap{"group.id": "unused-" + uuid.NewString(), "enable.auto.commit": false}))
	if err != nil {
		return nil, fmt.Errorf("admin client: %w", err)
	}
	client, err := kafka.NewAdminClientFromConsumer(owner)
	if err != nil {
		_ = owner.Close() // it owns no group: nothing is lost
		return nil, fmt.Errorf("admin client: %w", err)
	}
	return &Admin{client, func() {
		client.Close()
		_ = owner.Close() // as above
	}}, nil
}

// Close disconnects.
func (a *Admin) Close() { letGo(a.closing) }

// Topic is a topic as the brokers describe it.
type Topic struct {
	Name        string
	ID          uuid.UUID // of this incarnation: a topic that is created again has another
	Partitions  int
	Replication int
	Config      map[string]string // only the entries that were asked for
}

// Topics describes those of the names that exist.
func (a *Admin) Topics(ctx context.Context, names []string, configs ...string) (map[string]Topic, error) {
	res, err := a.client.DescribeTopics(ctx, kafka.NewTopicCollectionOfTopicNames(names))
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	topics := map[string]Topic{}
	for _, d := range res.TopicDescriptions {
		switch d.Error.Code() {
		case kafka.ErrNoError:
			topics[d.Name] = describe(d)
		case kafka.ErrUnknownTopicOrPart, kafka.ErrUnknownTopic:
		default:
			return nil, fmt.Errorf("describe topic %s: %w", d.Name, d.Error)
		}
	}
	if len(configs) > 0 {
		err = a.readConfigs(ctx, topics, configs)
	}
	return topics, err
}

func describe(d kafka.TopicDescription) Topic {
	t := Topic{Name: d.Name, Partitions: len(d.Partitions), Config: map[string]string{}}
	binary.BigEndian.PutUint64(t.ID[:8], uint64(d.TopicID.GetMostSignificantBits()))
	binary.BigEndian.PutUint64(t.ID[8:], uint64(d.TopicID.GetLeastSignificantBits()))
	if len(d.Partitions) > 0 {
		t.Replication = len(d.Partitions[0].Replicas)
	}
	return t
}

func (a *Admin) readConfigs(ctx context.Context, topics map[string]Topic, names []string) error {
	var resources []kafka.ConfigResource
	for name := range topics {
		resources = append(resources, kafka.ConfigResource{Type: kafka.ResourceTopic, Name: name})
	}
	if len(resources) == 0 {
		return nil
	}
	res, err := a.client.DescribeConfigs(ctx, resources)
	if err != nil {
		return fmt.Errorf("describe topic configurations: %w", err)
	}
	for _, r := range res {
		switch r.Error.Code() {
		case kafka.ErrNoError:
		case kafka.ErrUnknownTopicOrPart: // the broker that was asked has not heard of the new topic yet
			delete(topics, r.Name)
			continue
		default:
			return fmt.Errorf("describe the configuration of %s: %w", r.Name, r.Error)
		}
		for _, n := range names {
			if entry, ok := r.Config[n]; ok {
				topics[r.Name].Config[n] = entry.Value
			}
		}
	}
	return nil
}

// Create creates the topic; one that exists already is no error.
func (a *Admin) Create(ctx context.Context, t Topic) error {
	res, err := a.client.CreateTopics(ctx, []kafka.TopicSpecification{{
		Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: t.Replication, Config: t.Config,
	}})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", t.Name, err)
	}
	if code := res[0].Error.Code(); code != kafka.ErrNoError && code != kafka.ErrTopicAlreadyExists {
		return fmt.Errorf("create topic %s: %w", t.Name, res[0].Error)
	}
	return nil
}

// Names are the names of all topics that this account may see.
func (a *Admin) Names(ctx context.Context) ([]string, error) {
	patience := 10 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	meta, err := a.client.GetMetadata(nil, true, int(patience.Milliseconds()))
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	return slices.Sorted(maps.Keys(meta.Topics)), nil
}

// Cluster is what the brokers say of themselves together.
type Cluster struct {
	ID      string // the same for as long as the cluster lives; empty: they do not tell
	Brokers int
}

// Cluster describes the cluster.
func (a *Admin) Cluster(ctx context.Context) (Cluster, error) {
	res, err := a.client.DescribeCluster(ctx)
	if err != nil {
		return Cluster{}, fmt.Errorf("describe the cluster: %w", err)
	}
	c := Cluster{Brokers: len(res.Nodes)}
	if res.ClusterID != nil {
		c.ID = *res.ClusterID
	}
	return c, nil
}

// Ends are the end offsets of a topic's partitions: the offset of the next record.
func (a *Admin) Ends(ctx context.Context, topic string) (map[int32]int64, error) {
	return a.offsets(ctx, topic, kafka.LatestOffsetSpec)
}

// Starts are the offsets of the first records that the topic still holds.
func (a *Admin) Starts(ctx context.Context, topic string) (map[int32]int64, error) {
	return a.offsets(ctx, topic, kafka.EarliestOffsetSpec)
}

func (a *Admin) offsets(ctx context.Context, topic string, spec kafka.OffsetSpec) (map[int32]int64, error) {
	topics, err := a.Topics(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	ask := map[kafka.TopicPartition]kafka.OffsetSpec{}
	for i := range topics[topic].Partitions {
		ask[kafka.TopicPartition{Topic: &topic, Partition: int32(i)}] = spec
	}
	if len(ask) == 0 {
		return nil, fmt.Errorf("topic %s does not exist", topic)
	}
	res, err := a.client.ListOffsets(ctx, ask, kafka.SetAdminIsolationLevel(kafka.IsolationLevelReadCommitted))
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	offsets := map[int32]int64{}
	for tp, info := range res.ResultInfos {
		if info.Error.Code() != kafka.ErrNoError {
			return nil, fmt.Errorf("offset of %s[%d]: %w", topic, tp.Partition, info.Error)
		}
		offsets[tp.Partition] = int64(info.Offset)
	}
	return offsets, nil
}

// Committed are the committed offsets of a group on a topic; partitions without one are missing, and so are
// those of a group that was never there.
//
// A coordinator that moves, as in any restart of a broker, sends those away for a while who ask: they ask again.
func (a *Admin) Committed(ctx context.Context, group, topic string, partitions int) (map[int32]int64, error) {
	for deadline := time.Now().Add(committedPatience); ; {
		committed, err := a.askCommitted(ctx, group, topic, partitions)
		if err == nil || !coordinatorMoves(err) || time.Now().After(deadline) {
			return committed, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(placeAgain):
		}
	}
}

// committedPatience is how long a coordinator may move.
const committedPatience = 15 * time.Second

func coordinatorMoves(err error) bool {
	for _, code := range []kafka.ErrorCode{
		kafka.ErrNotCoordinator, kafka.ErrCoordinatorNotAvailable, kafka.ErrCoordinatorLoadInProgress, kafka.ErrUnstableOffsetCommit,
	} {
		if isCode(err, code) {
			return true
		}
	}
	return false
}

func (a *Admin) askCommitted(ctx context.Context, group, topic string, partitions int) (map[int32]int64, error) {
	ask := kafka.ConsumerGroupTopicPartitions{Group: group}
	for i := range partitions {
		ask.Partitions = append(ask.Partitions, kafka.TopicPartition{Topic: &topic, Partition: int32(i)})
	}
	res, err := a.client.ListConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{ask})
	committed := map[int32]int64{}
	if isCode(err, kafka.ErrGroupIDNotFound) {
		return committed, nil
	}
	if err != nil {
		return nil, fmt.Errorf("offsets of group %s: %w", group, err)
	}
	for _, g := range res.ConsumerGroupsTopicPartitions {
		for _, tp := range g.Partitions {
			if tp.Error != nil { // it is not the same as nothing committed
				return nil, fmt.Errorf("offset of group %s in %s[%d]: %w", group, topic, tp.Partition, tp.Error)
			}
			if tp.Offset >= 0 {
				committed[tp.Partition] = int64(tp.Offset)
			}
		}
	}
	return committed, nil
}

// ConfigInt reads an integer entry of a topic's configuration.
func (t Topic) ConfigInt(name string) (int64, error) {
	text, ok := t.Config[name]
	if !ok {
		return 0, errors.New(name + " is not known")
	}
	return strconv.ParseInt(text, 10, 64)
}
