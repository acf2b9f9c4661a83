// Package broker runs a Kafka broker inside this process, for `billing demo` and for the tests.
//
// It promises what the service relies on: acknowledged records and committed offsets are there after a restart on the same
// directory, and a topic exists only once it was created. It listens on 127.0.0.1 only. It replicates nothing and knows no
// quotas, so it is no broker for real orders.
package broker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Broker is a running broker.
type Broker struct {
	Addr string         // host:port
	Fake *kfake.Cluster // to inject faults
}

// Start runs a broker that keeps its data in dir. Port 0 takes a free one; after a restart on the same port clients come
// back by themselves.
func Start(dir string, port int) (*Broker, error) {
	if dir == "" {
		return nil, errors.New("start the broker: a directory is required") // in memory it takes twice the data
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	fake, err := kfake.NewCluster(
		kfake.Ports(port),
		kfake.DataDir(dir),
		kfake.ClusterID(rand.Text()), // of a new directory; an old one keeps its own
		kfake.BrokerConfigs(map[string]string{
			"log.cleaner.backoff.ms":               "60000", // looks for records past their retention, default 1 h
			"group.consumer.heartbeat.interval.ms": "1000",
			"group.min.session.timeout.ms":         "1000", // a test of a lost instance need not wait for 6 s
		}))
	if err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	return &Broker{Addr: fake.ListenAddrs()[0], Fake: fake}, nil
}

// Close stops the broker and leaves its data complete on disk.
func (b *Broker) Close() { b.Fake.Close() }
