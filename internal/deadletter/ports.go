package deadletter

import (
	"context"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/platform/kafkaclient"
)

// Publisher writes records. kafkaclient.Producer is the one implementation.
type Publisher interface {
	// PublishAll returns when each record was acknowledged by all in-sync replicas or has failed, at the latest when the
	// context ends. Errors are in the order of the records; nil means acknowledged, anything else that it may be there.
	PublishAll(ctx context.Context, records []kafkaclient.Record) []error
}

// Topics tells what the brokers know about a topic. kafkaclient.Admin is the one implementation.
type Topics interface {
	// Topics describes those of the names that exist; a topic that is created again has another ID.
	Topics(ctx context.Context, names []string, configs ...string) (map[string]kafkaclient.Topic, error)
	// Starts are the first offsets that are still there, Ends the ones that the next records will get, of all partitions.
	Starts(ctx context.Context, topic string) (map[int32]int64, error)
	Ends(ctx context.Context, topic string) (map[int32]int64, error)
}

// Reader reads a topic by assignment: it joins no group and commits nothing. kafkaclient.Reader is the one implementation.
type Reader interface {
	// ReadFrom hands over the records from the offsets on, in the order of each partition, until the context ends or a
	// function fails; then it returns that error. An offset that is no longer there means the first one that is. At the end
	// of a partition, behind its records, atEnd gets the offset that the next record will have at least: the last offsets
	// need not be records.
	ReadFrom(
		ctx context.Context, topic string, from map[int32]int64, handle func(kafkaclient.Message) error, atEnd func(partition int32, next int64) error,
	) error
}

// Place is where a record stands in its topic.
type Place struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Decode reads what can be read of a dead letter's value; package orders has the strict decoder for it. Either result is
// zero when it cannot be told.
type Decode func(value []byte) (order uuid.UUID, amount billing.Money)
