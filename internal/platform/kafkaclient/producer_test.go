package kafkaclient_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/platform/kafkaclient"
)

func (f fixture) producer(t *testing.T) (*kafkaclient.Producer, *logBook) {
	t.Helper()
	log := &logBook{}
	p, err := kafkaclient.NewProducer(kafkaclient.Config{Brokers: f.Brokers, ClientID: "test"}, log.logger())
	require.NoError(t, err)
	t.Cleanup(func() { p.Close(time.Second) })
	return p, log
}

// publish writes in the background.
func (f fixture) publish(t *testing.T, p *kafkaclient.Producer) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		done <- p.Publish(context.Background(), kafkaclient.Record{Topic: f.topic, Key: []byte("k"), Value: []byte("v")})
	}()
	return done
}

const replaced = "kafka producer is replaced"

// A fatal error while a record is under way: whoever waits for it is told at once, and the next client works (hazard H23).
func TestAProducerThatDiesFailsThoseThatWait(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	p, log := f.producer(t)
	require.NoError(t, <-f.publish(t, p))
	arrived, release := f.withhold(t, kmsg.Produce)
	waiting := f.publish(t, p)
	<-arrived
	p.Break()
	select {
	case err := <-waiting:
		require.ErrorContains(t, err, "made by a test")
		require.NotErrorIs(t, err, kafkaclient.ErrRefused)
	case <-time.After(3 * time.Second):
		require.Fail(t, "the record's publisher is forgotten")
	}
	release()
	eventually(t, func() bool { return <-f.publish(t, p) == nil })
	require.Equal(t, 1, log.count(replaced))
}

// Nobody waits longer than it takes, also when the client never says what became of the record.
func TestAPublishEndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	p, _ := f.producer(t)
	require.NoError(t, <-f.publish(t, p))
	p.SetPatience(200 * time.Millisecond)
	arrived, _ := f.withhold(t, kmsg.Produce)
	began := time.Now()
	waiting := f.publish(t, p)
	<-arrived
	require.ErrorContains(t, <-waiting, "not acknowledged in time")
	require.Less(t, time.Since(began), 3*time.Second)
}

// A broker that lets every client die: the clients are made with growing waits, publishers are told at once, and the first
// client after the cure works.
func TestAProducerThatDiesAgainAndAgain(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	p, log := f.producer(t)
	fault := f.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.OutOfOrderSequenceNumber, Count: -1})
	began, failed := time.Now(), 0
	for time.Since(began) < 2*time.Second {
		require.Error(t, <-f.publish(t, p))
		failed++
	}
	require.LessOrEqual(t, log.count(replaced), 6, "0, 100, 200, 400, 800 ms")
	require.Greater(t, log.count(replaced), 2)
	require.Greater(t, failed, 20, "they do not wait for the next client")
	fault.Remove()
	eventually(t, func() bool { return <-f.publish(t, p) == nil })
}

func TestRebuildsWaitLongerAndLonger(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := make([]time.Time, 9)
	for i := range at {
		at[i] = now.Add(time.Duration(i) * time.Second)
	}
	const ms = time.Millisecond
	require.Equal(t, []time.Duration{0, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms, 0},
		kafkaclient.RebuildWaits(slices.Concat(at, []time.Time{now.Add(2 * time.Minute)})...))
}

// A broker that works and says no is told apart from one that does not work, and at once.
func TestARefusalIsNoOutage(t *testing.T) {
	for _, refusal := range []*kerr.Error{
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.PolicyViolation, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat,
	} {
		t.Run(refusal.Message, func(t *testing.T) {
			t.Parallel()
			f := newFaultyFixture(t, 1)
			p, _ := f.producer(t)
			f.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: refusal, Count: 1})
			began := time.Now()
			err := <-f.publish(t, p)
			require.ErrorIs(t, err, kafkaclient.ErrRefused)
			require.NotErrorIs(t, err, kafkaclient.ErrTooLarge)
			require.ErrorContains(t, err, "publish to topic")
			require.Less(t, time.Since(began), 3*time.Second)
			eventually(t, func() bool { return <-f.publish(t, p) == nil })
		})
	}
}

// A topic's limit is for a batch, too. Many records that fit must not be refused since they travel together.
func TestRecordsThatFitAreNotTooLargeTogether(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	limit := "200000"
	_, err := f.Admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": &limit}, "small")
	require.NoError(t, err)
	p, _ := f.producer(t)
	records := make([]kafkaclient.Record, 200)
	for i := range records {
		value := make([]byte, 20_000)
		_, _ = rand.Read(value)
		records[i] = kafkaclient.Record{Topic: "small", Key: fmt.Append(nil, i), Value: value}
	}
	for _, err := range p.PublishAll(t.Context(), records) {
		require.NoError(t, err)
	}
}
