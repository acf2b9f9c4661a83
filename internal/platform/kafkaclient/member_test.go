package kafkaclient_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/billing/internal/platform/kafkaclient"
)

const notJoined = "consumer has not joined its group"

// emptyGroup has the next consumer lead a group that reads nothing: the broker that it asks for the partitions does not
// know the topic yet, though another one told it of the topic before. On three real brokers that is one start in a hundred
// right after the topics were made.
func (f fixture) emptyGroup(t *testing.T) (synced <-chan struct{}) {
	t.Helper()
	joins, join := make(chan struct{}), make(chan struct{})
	f.Fake().ControlKey(int16(kmsg.JoinGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		f.Fake().KeepControl()
		if r.(*kmsg.JoinGroupRequest).MemberID == "" { // it is told its id first
			return nil, nil, false
		}
		f.Fake().DropControl()
		close(joins)
		f.Fake().SleepControl(func() { <-join })
		return nil, nil, false
	})
	syncs, sync := f.withhold(t, kmsg.SyncGroup)
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-joins
		unknown := f.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: f.topic, Err: kerr.UnknownTopicOrPartition, Count: -1})
		close(join)
		<-syncs
		unknown.Remove()
		sync()
	}()
	return done
}

// A group that gives its members nothing heals by itself, and says so (torture, seed 9314).
func TestAConsumerThatTheGroupForgotJoinsAgain(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	f.produce(10, "")
	synced := f.emptyGroup(t)
	count := newTally()
	c, log := f.watched(t, nil, count.handle)
	<-synced
	eventually(t, func() bool { return count.handled() == 10 })
	require.Zero(t, c.Outside())
	require.Zero(t, log.count(notJoined), "it is healed before anybody must know")
	count.exactly(t, 0, 10)
}

// A group that cannot be joined is told of, whatever the reason, and joined once it can be.
func TestAConsumerThatCannotJoinIsToldOf(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	f.produce(10, "")
	refused := f.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: -1})
	count := newTally()
	c, log := f.watched(t, nil, count.handle)
	eventually(t, func() bool { return log.count(notJoined) > 0 && c.Outside() >= stall })
	refused.Remove()
	eventually(t, func() bool { return count.handled() == 10 && c.Outside() == 0 })
}

// More members than partitions: one stands by, which is as it should be.
func TestAConsumerThatStandsByIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFaultyFixture(t, 1)
	nothing := func(context.Context, kafkaclient.Message) error { return nil }
	a, logA := f.watched(t, nil, nothing)
	b, logB := f.watched(t, nil, nothing)
	eventually(t, func() bool { return len(a.State())+len(b.State()) == 1 })
	described := f.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups}, Observe: true, Count: -1})
	eventually(t, func() bool { return described.Hits() >= 3 }) // the group is settled, one looks what is wrong
	joined := f.Fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Observe: true, Count: -1})
	eventually(t, func() bool { return described.Hits() >= 5 })
	require.Zero(t, joined.Hits())
	require.Zero(t, logA.count(notJoined)+logB.count(notJoined))
	require.Equal(t, []time.Duration{0, 0}, []time.Duration{a.Outside(), b.Outside()})
}
