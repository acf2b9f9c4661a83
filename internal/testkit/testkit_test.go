package testkit_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/testkit"
)

func TestEachTestHasItsOwnMigratedDatabase(t *testing.T) {
	testkit.NoLeaks(t)
	a, b := testkit.Postgres(t), testkit.Postgres(t)
	require.NotEqual(t, a.URL, b.URL)

	const put = "INSERT INTO installation (environment, provider_account, consumer_group) VALUES ('e', 'p', 'g')"
	_, err := a.Pool.Exec(t.Context(), put)
	require.NoError(t, err)
	var inA, inB int
	require.NoError(t, a.Pool.QueryRow(t.Context(), "SELECT count(*) FROM installation").Scan(&inA))
	require.NoError(t, b.Pool.QueryRow(t.Context(), "SELECT count(*) FROM installation").Scan(&inB))
	require.Equal(t, []int{1, 0}, []int{inA, inB})
}

func TestRecordsComeBackAsProduced(t *testing.T) {
	testkit.NoLeaks(t)
	c := testkit.Kafka(t)
	topic := c.Name("orders")
	c.CreateTopics(3, topic)
	require.Empty(t, c.All(topic))

	sent := &kgo.Record{Topic: topic, Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}}
	c.Produce(sent, &kgo.Record{Topic: topic, Value: []byte{}})
	require.Equal(t, 2, c.Count(topic))
	for _, got := range c.Consume(topic, 2) {
		if got.Key != nil {
			require.Nil(t, got.Value, "a tombstone stays one")
			require.Equal(t, "x", c.Header(got, "h"))
			require.Equal(t, sent.Offset, got.Offset)
		}
	}
	require.Empty(t, c.Committed(c.Name("group"), topic))
}

func TestFakeKafkaGoesDownAndComesBack(t *testing.T) {
	testkit.NoLeaks(t)
	c := testkit.FakeKafka(t)
	c.CreateTopics(1, "orders")
	c.Produce(&kgo.Record{Topic: "orders", Value: []byte("before")})
	c.Down()
	c.Up()
	fault := c.Fake().Fault(kfake.Fault{Topic: "orders", Err: kerr.NotLeaderForPartition, Count: 1})
	c.Produce(&kgo.Record{Topic: "orders", Value: []byte("after")})
	require.Equal(t, 1, fault.Hits())
	require.Len(t, c.All("orders"), 2)
}
