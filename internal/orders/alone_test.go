package orders

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// diary plays the store, the processor and the router.
type diary struct {
	starts, tries int
	storeErr      error
	openErr       error
	handled       int
	ended         int
	routed        []retry.Outcome
}

func (d *diary) Started(context.Context, string, int32, int64) (int, error) {
	d.starts++
	return d.starts, d.storeErr
}

func (d *diary) EndedWell(_ context.Context, _ string, began map[int32]int64) error {
	d.starts -= len(began)
	return d.storeErr
}

func (d *diary) BeginAlone(context.Context, string, int32, int64) (int, error) {
	d.tries++
	return d.tries, d.storeErr
}

func (d *diary) EndAlone(ctx context.Context, _ string, _ int32, _ int64, decided bool) error {
	switch {
	case ctx.Err() != nil:
	case decided:
		d.ended++
	default:
		d.tries--
	}
	return ctx.Err()
}

func (d *diary) handle(context.Context, kafkaclient.Message) error { d.handled++; return nil }

func (d *diary) Open(_ context.Context, m kafkaclient.Message, _ uuid.UUID) (retry.Envelope, error) {
	return retry.Envelope{Message: m}, d.openErr
}

func (*diary) Setback(_ retry.Envelope, _ string, err error, _ failure.Reason) error { return err }

func (d *diary) Route(_ context.Context, _ retry.Envelope, o retry.Outcome) error {
	d.routed = append(d.routed, o)
	return nil
}

func (d *diary) guard() *Poison {
	return NewPoison(PoisonConfig{Store: d, Next: d.handle, Opener: d, Router: d, Window: 100})
}

func TestOnlyTheThirdStartAtOneOffsetIsCareful(t *testing.T) {
	d := &diary{}
	for _, want := range []int64{0, 0, 107, 107} {
		until, err := d.guard().Careful(t.Context(), "orders", 0, 7)
		require.NoError(t, err)
		require.Equal(t, want, until)
	}
}

func TestAGoodEndIsNoCrash(t *testing.T) { // H33
	d := &diary{}
	for range 10 {
		until, err := d.guard().Careful(t.Context(), "orders", 0, 7)
		require.NoError(t, err)
		require.Zero(t, until)
		require.NoError(t, d.guard().EndedWell(t.Context(), "orders", map[int32]int64{0: 7}))
	}
}

func TestAMessageThatKilledThreeTimesIsNotHandledAgain(t *testing.T) { // H15
	d := &diary{}
	for range 3 {
		require.NoError(t, d.guard().Handle(t.Context(), kafkaclient.Message{Alone: true}))
	}
	require.Equal(t, 3, d.handled)
	require.Equal(t, 3, d.ended)
	d.openErr = errors.New("database gone")
	require.Error(t, d.guard().Handle(t.Context(), kafkaclient.Message{Alone: true}))
	require.Empty(t, d.routed, "nobody knows what it stands for")
	d.openErr = nil
	require.NoError(t, d.guard().Handle(t.Context(), kafkaclient.Message{Alone: true, Value: []byte("whatever")}))
	require.Equal(t, 3, d.handled)
	require.Len(t, d.routed, 1)
	f := failure.Of(d.routed[0].Err)
	require.Equal(t, failure.Poison, f.Reason)
	require.Equal(t, failure.ClassPoison, f.Class())
	require.Equal(t, failure.OfMessage, f.Fault(failure.Hold))
	require.Equal(t, failure.Dies, f.Verdict, "a flood that withholds it would hold up all that wait behind it")
	require.Equal(t, 4, d.ended)
}

func TestOthersAreNotNoted(t *testing.T) {
	d := &diary{storeErr: errors.New("database gone")}
	require.NoError(t, d.guard().Handle(t.Context(), kafkaclient.Message{}))
	require.Zero(t, d.tries)
	require.Error(t, d.guard().Handle(t.Context(), kafkaclient.Message{Alone: true}), "what cannot be noted is not handled alone")
	require.Equal(t, 1, d.handled)
}

// A death takes all in flight with it, so that only one may be on trial in a process, whatever its partition.
func TestLonelyMessagesTakeTurns(t *testing.T) {
	d, inside, leave := &diary{}, make(chan struct{}, 2), make(chan struct{})
	guard := NewPoison(PoisonConfig{Store: d, Router: d, Next: func(context.Context, kafkaclient.Message) error {
		inside <- struct{}{}
		<-leave
		return nil
	}})
	ended := make(chan error, 1)
	go func() { ended <- guard.Handle(t.Context(), kafkaclient.Message{Alone: true, Partition: 0}) }()
	<-inside
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	require.ErrorIs(t, guard.Handle(given, kafkaclient.Message{Alone: true, Partition: 1}), context.Canceled)
	require.Equal(t, 1, d.tries, "who waits is not on trial")
	close(leave)
	require.NoError(t, <-ended)
	require.NoError(t, guard.Handle(t.Context(), kafkaclient.Message{Alone: true, Partition: 1}))
	require.Equal(t, []int{2, 2}, []int{d.tries, d.ended})
}

func TestAStopIsNoDeath(t *testing.T) {
	d := &diary{}
	ctx, stop := context.WithCancel(t.Context())
	guard := NewPoison(PoisonConfig{Store: d, Router: d, Next: func(context.Context, kafkaclient.Message) error {
		stop()
		return ctx.Err()
	}})
	require.ErrorIs(t, guard.Handle(ctx, kafkaclient.Message{Alone: true}), context.Canceled)
	require.Zero(t, d.tries)
}
