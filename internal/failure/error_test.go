package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNew(t *testing.T) {
	f := New(ProviderReset, "charge of order %d: %w", 7, io.ErrUnexpectedEOF)
	require.Equal(t, "charge of order 7: unexpected EOF", f.Detail)
	require.Equal(t, "provider_reset: charge of order 7: unexpected EOF", f.Error())
	require.ErrorIs(t, f, io.ErrUnexpectedEOF)
	require.False(t, f.Answered)
	require.False(t, f.Final)
}

// A new failure starts with what its reason knows about the money (hazard H5).
func TestNewIsUnknownWhereMoneyMayHaveMoved(t *testing.T) {
	for _, r := range table {
		require.Equal(t, r.money == MayHaveMoved, New(r.reason, "x").Unknown, r.text)
	}
}

func TestOfFindsTheFailure(t *testing.T) {
	f := New(Declined, "card declined")
	require.Same(t, f, Of(f))
	require.Same(t, f, Of(fmt.Errorf("order 7: %w", f)))
	require.Same(t, f, Of(errors.Join(errors.New("other"), f)))
}

// A failure that was caused by our own stop is still that failure: its outcome decides, not the context.
func TestOfPrefersTheFailureToTheContext(t *testing.T) {
	f := New(ProviderTimeout, "stopped after the send: %w", context.Canceled)
	require.Same(t, f, Of(f))
}

func TestOfOurShutdown(t *testing.T) {
	f := Of(fmt.Errorf("claim: %w", context.Canceled))
	require.Equal(t, ShuttingDown, f.Reason)
	require.Equal(t, OfShutdown, f.Fault(Hold))
	require.False(t, f.Unknown)
	require.ErrorIs(t, f, context.Canceled)
}

// A deadline is a dependency's slowness, never our stop; and an error with no opinion belongs to everyone (hazard H21).
func TestOfAnErrorWithoutOpinion(t *testing.T) {
	for _, err := range []error{errors.New("odd"), context.DeadlineExceeded} {
		f := Of(err)
		require.Equal(t, Unclassified, f.Reason)
		require.Equal(t, OfSuspect, f.Fault(Hold))
		require.True(t, f.Unknown)
		require.ErrorIs(t, f, err)
	}
}

func TestFaultOfAFinalFailure(t *testing.T) {
	for _, r := range table {
		f := New(r.reason, "x")
		require.Equal(t, r.hold, f.Fault(Hold), r.text)
		require.Equal(t, r.document, f.Fault(Document), r.text)
		f.Refused = true
		require.Equal(t, r.hold, f.Fault(Hold), r.text)
		require.Equal(t, OfMessage, f.Fault(Document), "every 4xx ends in the dead letters there")
		f.Refused = false
		f.Uncounted = true
		require.NotEqual(t, OfDependency, f.Fault(Hold), "it waits, whatever the reason")
		require.Equal(t, r.document, f.Fault(Document), r.text)
		f.Final = true
		require.Equal(t, OfMessage, f.Fault(Hold), r.text)
		require.Equal(t, OfMessage, f.Fault(Document), r.text)
	}
}

// What cannot be told apart from a charge is unknown; what is wrong with the message itself stays that (hazard H5).
func TestClassOfAnUnknownOutcome(t *testing.T) {
	for _, r := range table {
		f := New(r.reason, "x")
		f.Unknown = false
		require.Equal(t, r.class, f.Class(), r.text)
		f.Unknown = true
		switch r.class {
		case ClassExhausted, ClassRejected, ClassStale:
			require.Equal(t, ClassUnknown, f.Class(), r.text)
		default:
			require.Equal(t, r.class, f.Class(), r.text)
		}
	}
}
