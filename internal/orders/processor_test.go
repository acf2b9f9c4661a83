package orders

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// till plays the opener, the charger, the ledger and the router.
type till struct {
	envelope retry.Envelope
	openErr  error
	charge   func(billing.Order) (billing.Receipt, error)

	moved    billing.Moved
	movedErr error
	message  kafkaclient.Message

	opened  []uuid.UUID
	charged []billing.Order
	routed  []retry.Outcome
}

func (k *till) Open(_ context.Context, m kafkaclient.Message, order uuid.UUID) (retry.Envelope, error) {
	k.opened = append(k.opened, order)
	e := k.envelope
	e.Message = m
	return e, k.openErr
}

func (k *till) Route(_ context.Context, _ retry.Envelope, o retry.Outcome) error {
	k.routed = append(k.routed, o)
	return nil
}

func (*till) Setback(_ retry.Envelope, _ string, err error, _ failure.Reason) error { return err }

func (k *till) Moved(context.Context, uuid.UUID) (billing.Moved, error) { return k.moved, k.movedErr }

func (k *till) Charge(_ context.Context, o billing.Order) (billing.Receipt, error) {
	k.charged = append(k.charged, o)
	if k.charge != nil {
		return k.charge(o)
	}
	return billing.Receipt{ProviderChargeID: "ch_1"}, nil
}

func (k *till) process(t *testing.T, value string) error {
	t.Helper()
	now := time.Now()
	if k.envelope.OriginTime.IsZero() {
		k.envelope.OriginTime = now
	}
	k.message.Value = []byte(value)
	return NewProcessor(ProcessorConfig{
		Opener: k, Charger: k, Ledger: k, Router: k, Currency: "EUR", TopicID: func(string) uuid.UUID { return uuid.Max }, MaxAge: 48 * time.Hour, Window: time.Hour,
		Clock: func() time.Time { return now },
	}).Process(t.Context(), k.message)
}

const (
	someID    = "0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a01"
	someEvent = `{"event_id":"` + someID + `","order_id":"` + someID + `","customer_id":"` + someID + `","total_amount":"1.00"}`
)

func TestProcessChargesWhatTheRecordStandsFor(t *testing.T) {
	k := &till{envelope: retry.Envelope{OriginTopic: "orders", OriginPart: 5, OriginOffset: 99}}
	require.NoError(t, k.process(t, someEvent))
	id := uuid.MustParse(someID)
	require.Equal(t, []uuid.UUID{id}, k.opened)
	require.Equal(t, billing.Origin{TopicID: uuid.Max, Partition: 5, Offset: 99}, k.charged[0].Origin)
	require.False(t, k.charged[0].MayBeKnown)
	require.Equal(t, []retry.Outcome{{Order: id}}, k.routed)
}

func TestProcessAsksFirstWhereADatabaseMayHaveForgotten(t *testing.T) { // H3
	for _, e := range []retry.Envelope{
		{Tried: true}, {OriginTime: time.Now().Add(-2 * time.Hour)},
		{OriginTime: time.Now().Add(time.Hour)}, {OriginTime: time.Now().Add(100 * 24 * time.Hour)}, // which proves nothing of its age
	} {
		k := &till{envelope: e}
		require.NoError(t, k.process(t, someEvent))
		require.True(t, k.charged[0].MayBeKnown)
	}
	k := &till{envelope: retry.Envelope{OriginTime: time.Now().Add(5 * time.Second)}} // clocks differ a little
	require.NoError(t, k.process(t, someEvent))
	require.False(t, k.charged[0].MayBeKnown)
}

func TestProcessDoesNotChargeWhatItMayNot(t *testing.T) {
	boom := func(billing.Order) (billing.Receipt, error) { panic("boom 4111111111111111") }
	for _, c := range []struct {
		name, value string
		k           till
		reason      failure.Reason
		charged     int
	}{
		{"not an order", "?", till{}, failure.NotJSON, 0},
		{"a replay that was taken back", someEvent, till{envelope: retry.Envelope{Stopped: failure.New(failure.Stopped, "dropped")}}, failure.Stopped, 0},
		{"too old", someEvent, till{envelope: retry.Envelope{OriginTime: time.Now().Add(-72 * time.Hour)}}, failure.TooOld, 0},
		{"a bug of ours", someEvent, till{charge: boom}, failure.Panic, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, c.k.process(t, c.value))
			require.Len(t, c.k.charged, c.charged)
			require.Len(t, c.k.routed, 1)
			f := failure.Of(c.k.routed[0].Err)
			require.Equal(t, c.reason, f.Reason)
			if c.reason == failure.Panic {
				require.Contains(t, f.Detail, "processor_test.go:", "the place where it happened")
				require.NotContains(t, f.Detail, "4111", "a panic may quote what the customer wrote")
				require.Equal(t, uuid.MustParse(someID), c.k.routed[0].Order)
			}
		})
	}
}

// An approver's decision stands in the books, and reaches the processor with the proof of the replay.
func TestAnOrderWhoseAgeWasLiftedIsCharged(t *testing.T) {
	k := till{envelope: retry.Envelope{OriginTime: time.Now().Add(-72 * time.Hour), AgeLifted: true}}
	require.NoError(t, k.process(t, someEvent))
	require.Len(t, k.charged, 1)
	require.NoError(t, k.routed[0].Err)
}

func TestProcessLeavesWhatCannotBeProven(t *testing.T) {
	k := &till{openErr: errors.New("database gone")}
	require.Error(t, k.process(t, someEvent))
	require.Empty(t, k.charged)
	require.Empty(t, k.routed)
}

// A verdict that no claim has given looks at the order's row: what may have moved money is unknown, and goes to the
// reconciler; while the row cannot be read there is no verdict (H31).
func TestVerdictBeforeTheClaimRemembersMoney(t *testing.T) {
	busy := func(billing.Order) (billing.Receipt, error) {
		return billing.Receipt{}, failure.New(failure.DatabaseBusy, "lock timeout")
	}
	for name, make := range map[string]func() *till{
		"too old": func() *till { return &till{envelope: retry.Envelope{OriginTime: time.Now().Add(-72 * time.Hour)}} },
		"stopped": func() *till {
			return &till{envelope: retry.Envelope{Stopped: failure.New(failure.Stopped, "dropped")}}
		},
		"database busy": func() *till { return &till{charge: busy} },
	} {
		t.Run(name, func(t *testing.T) {
			for moved, class := range map[billing.Moved]bool{billing.NoMoney: false, billing.MayBe: true} {
				k := make()
				k.moved = moved
				require.NoError(t, k.process(t, someEvent))
				require.Equal(t, class, failure.Of(k.routed[0].Err).Class() == failure.ClassUnknown)
			}
			k := make()
			k.message.Again = true // the database may have forgotten it
			require.NoError(t, k.process(t, someEvent))
			require.Equal(t, failure.ClassUnknown, failure.Of(k.routed[0].Err).Class())
			k = make()
			k.movedErr = errors.New("database gone")
			require.ErrorIs(t, k.process(t, someEvent), k.movedErr)
			require.Empty(t, k.routed, "handed back")
		})
	}
	k := &till{moved: billing.Certainly, envelope: retry.Envelope{OriginTime: time.Now().Add(-72 * time.Hour)}}
	k.charge = func(billing.Order) (billing.Receipt, error) { return billing.Receipt{Duplicate: true}, nil }
	require.NoError(t, k.process(t, someEvent))
	require.True(t, k.routed[0].Duplicate, "what is charged is not too old")
}
