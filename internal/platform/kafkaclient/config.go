package kafkaclient

import (
	"cmp"
	"maps"
	"strings"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Config is how to reach the brokers. It is shared by consumers, the producer and the administration client.
type Config struct {
	Brokers          string // host:port, comma-separated
	ClientID         string
	SecurityProtocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	SASLMechanism    string
	SASLUsername     string
	SASLPassword     string
	SSLCA            string // path of a PEM file, or the PEM itself
	PrefetchKB       int    // of a consumer, in memory; 0: 8192
	// Extra goes to the client as it is; ParseExtra refuses what would break a promise.
	Extra map[string]string
}

// promises are client properties that must not be changed from outside, with the promise that each one keeps.
var promises = map[string]string{
	"acks":                                  "a record counts only when all in-sync replicas have it",
	"request.required.acks":                 "a record counts only when all in-sync replicas have it",
	"enable.idempotence":                    "a retried send must not be written twice or out of order",
	"max.in.flight":                         "the idempotent producer keeps its order",
	"max.in.flight.requests.per.connection": "the idempotent producer keeps its order",
	"enable.auto.commit":                    "only stored offsets are committed",
	"enable.auto.offset.store":              "an offset is stored only after the message's fate is durable",
	"auto.offset.reset":                     "a new group starts at the earliest record",
	"group.id":                              "set BILLING_GROUP instead",
	"bootstrap.servers":                     "set BILLING_KAFKA_BROKERS instead",
	"isolation.level":                       "aborted transactions are not orders",
	"partition.assignment.strategy":         "one strategy in a group",
	"message.timeout.ms":                    "a publish waits a bounded time",
	"delivery.timeout.ms":                   "a publish waits a bounded time",
	"transactional.id":                      "a publish counts when it is acknowledged, there are no transactions here",
	"group.protocol":                        "assignments follow the classic protocol",
	"metadata.broker.list":                  "set BILLING_KAFKA_BROKERS instead",
	"enable.partition.eof":                  "the watchdog knows the end of a partition by it",
	"auto.commit.enable":                    "only stored offsets are committed",
	"offset.store.method":                   "offsets are committed to the brokers",
	"delivery.report.only.error":            "a record counts only when its acknowledgement is reported",
	"allow.auto.create.topics":              "a misspelt topic must be an error",
	"group.protocol.type":                   "assignments follow the classic protocol",
}

// base is what all clients have in common.
func (c Config) base() kafka.ConfigMap {
	m := kafka.ConfigMap{
		"bootstrap.servers":        c.Brokers,
		"client.id":                c.ClientID,
		"enable.metrics.push":      false,
		"reconnect.backoff.max.ms": 1000, // back within a second of a broker's return
		"go.logs.channel.enable":   false,
		"log_level":                2, // its lines are not ours (JSON); what matters reaches us as error events
	}
	set := func(key, value string) {
		if value != "" {
			m[key] = value
		}
	}
	set("security.protocol", c.SecurityProtocol)
	set("sasl.mechanisms", c.SASLMechanism)
	set("sasl.username", c.SASLUsername)
	set("sasl.password", c.SASLPassword)
	if strings.Contains(c.SSLCA, "-----BEGIN") {
		set("ssl.ca.pem", c.SSLCA)
	} else {
		set("ssl.ca.location", c.SSLCA)
	}
	return m
}

// with adds to the base, the user's extras last. The client ignores properties of another kind of client.
func (c Config) with(own kafka.ConfigMap) *kafka.ConfigMap {
	m := c.base()
	maps.Copy(m, own)
	for k, v := range c.Extra {
		m[k] = v
	}
	return &m
}

// consumerConfig: auto-commit commits only what was stored, from the client's own thread, on its interval, at a
// revocation and at the close; a commit of our own can block for ever without a broker. docs/adr has the measurements.
//
// Membership is dynamic; with group.instance.id among the extras it is static, in each of the instance's groups.
func (c Config) consumerConfig(group string) *kafka.ConfigMap {
	return c.with(kafka.ConfigMap{
		"group.id":                      group,
		"enable.auto.commit":            true,
		"auto.commit.interval.ms":       1000,
		"enable.auto.offset.store":      false,
		"auto.offset.reset":             "earliest",
		"partition.assignment.strategy": "cooperative-sticky",
		"isolation.level":               "read_committed",
		"enable.partition.eof":          true,
		"session.timeout.ms":            10000,
		"heartbeat.interval.ms":         1000, // how soon the others notice a rebalance
		"max.poll.interval.ms":          300000,
		"fetch.queue.backoff.ms":        5,                          // the default of 1 s costs two thirds of the throughput
		"queued.max.messages.kbytes":    cmp.Or(c.PrefetchKB, 8192), // the default of 64 MB per consumer is memory for nothing
		"fetch.wait.max.ms":             500,
		// New partitions are read from then on, not after five minutes.
		"topic.metadata.refresh.interval.ms": 10000,
	})
}

func (c Config) producerConfig() *kafka.ConfigMap {
	return c.with(kafka.ConfigMap{
		"enable.idempotence": true,
		"acks":               "all",
		"linger.ms":          0, // a retry or an outbox batch waits for its acknowledgement
		"compression.type":   "lz4",
		"message.timeout.ms": int(messageTimeout.Milliseconds()),
		"message.max.bytes":  10 << 20, // the topic's own limit decides
		// Of several records. A topic's limit is for the batch, too: a larger batch of small records would be refused as too large.
		"batch.size":                   64 << 10,
		"queue.buffering.max.messages": 20000,
		"go.delivery.report.fields":    "none",
		"go.events.channel.size":       1000,
		"go.produce.channel.size":      1,
	})
}
