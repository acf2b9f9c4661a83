package main

import (
	"context"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/proof"
	"example.com/billing/internal/retry"
)

// books are what the router writes down and asks for: fates under the ids of the topics, and the working list.
type books struct {
	store   *pgstore.Store
	letters *deadletter.List
	topics  topicIDs
	main    string
}

func (b books) RecordFate(ctx context.Context, f retry.Fate) error {
	return b.store.RecordFate(ctx, pgstore.Fate{Origin: b.origin(f.Topic, f.Partition, f.Offset), OrderID: f.Order, Kind: f.Kind, Reason: f.Reason, Step: f.Step})
}

func (b books) Park(ctx context.Context, r kafkaclient.Record) (uuid.UUID, error) {
	return b.store.Park(ctx, r.Key, r.Value)
}

func (b books) Listed(ctx context.Context, e retry.Envelope) (bool, error) {
	return b.letters.Died(ctx, b.origin(e.OriginTopic, e.OriginPart, e.OriginOffset), e.ReplayID, proof.BodyHash(e.Message.Key, e.Message.Value))
}

func (b books) SentOn(ctx context.Context, topic string, partition int32, offset int64, order uuid.UUID) (bool, error) {
	return b.store.SentOn(ctx, b.origin(topic, partition, offset), order)
}

func (b books) Replayed(ctx context.Context, id uuid.UUID) (*proof.Replay, error) {
	return b.letters.Replayed(ctx, id, b.topics.id(b.main))
}

func (b books) origin(topic string, partition int32, offset int64) billing.Origin {
	return billing.Origin{TopicID: b.topics.id(topic), Partition: partition, Offset: offset}
}
