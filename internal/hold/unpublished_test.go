package hold

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// refuse judges that the topic did not take the record that stands for the message.
func refuse(l *Line, record, topic string) failure.Fault {
	a := Attempt{Record: record, Order: record, Began: l.cfg.Clock(), To: topic}
	return l.Judge(a, failure.New(failure.PublishRefused, "orders[3]@17: no permission to write to %s", topic))
}

// newToldLine is a line whose log and transitions are kept.
func newToldLine(t *testing.T) (l *Line, now *time.Time, log *strings.Builder, shown *[]string) {
	t.Helper()
	l, now = newTestLine(t, failure.Hold)
	log, shown = &strings.Builder{}, &[]string{}
	l.cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	l.cfg.OnTransition = func(r failure.Reason, on bool) { *shown = append(*shown, fmt.Sprint(r, " ", on)) }
	return l, now, log, shown
}

// A refusal is told once, and the line is not held and let go in turns: not by orders that are charged meanwhile, not by
// another topic that takes records, not by a provider that fails now and then.
func TestARefusedPublicationHoldsUntilTheTopicTakesOne(t *testing.T) {
	l, now, log, shown := newToldLine(t)
	for i := range 100 {
		*now = now.Add(100 * time.Millisecond)
		require.Equal(t, failure.OfSystem, refuse(l, "a", "dlq"))
		charge(l, fmt.Sprint("charged ", i))
		require.Equal(t, failure.OfDependency, fail(l, "failed", failure.Provider5xx), "it goes to its tier")
		l.Published("failed", "tier")
		require.Equal(t, failure.PublishRefused, held(l))
		charge(l, "another")
	}
	l.Published("b", "dlq")
	require.Empty(t, held(l))
	require.Equal(t, []string{"publish_refused true", "publish_refused false"}, *shown)
	require.Equal(t, 1, strings.Count(log.String(), "orders[3]@17: no permission to write to dlq"), log)
}

// Nobody waits for the topic any more: the line must not stay held for a publication that never comes.
func TestAHoldForAPublicationEndsWhenNobodyNeedsIt(t *testing.T) {
	for name, c := range map[string]struct {
		proof func(l *Line, now *time.Time)
		ends  bool
	}{
		"the message is charged after all":       {func(l *Line, _ *time.Time) { charge(l, "a") }, true},
		"another topic takes its record":         {func(l *Line, _ *time.Time) { l.Published("a", "tier") }, true},
		"another message is charged":             {func(l *Line, _ *time.Time) { charge(l, "b") }, false},
		"its partition went to another instance": {func(l *Line, now *time.Time) { *now = now.Add(2 * forgottenAfter); charge(l, "b") }, true},
		"it came again a moment ago": {func(l *Line, now *time.Time) {
			*now = now.Add(2 * forgottenAfter)
			refuse(l, "a", "dlq")
			charge(l, "b")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := newTestLine(t, failure.Hold)
			refuse(l, "a", "dlq")
			c.proof(l, now)
			require.Equal(t, c.ends, held(l) == "")
		})
	}
}

// The message went with its partition, and nothing else comes (torture, seed 72023).
func TestAHoldForAPublicationEndsThoughNothingComes(t *testing.T) {
	l, now, _, _ := newToldLine(t)
	refuse(l, "a", "tier")
	*now = now.Add(forgottenAfter)
	require.Equal(t, failure.PublishRefused, held(l))
	*now = now.Add(time.Second)
	require.Empty(t, held(l))
}

// A provider that goes down while the brokers refuse is an outage of its own.
func TestAProviderThatFailsMeanwhileIsFound(t *testing.T) {
	l, _ := newTestLine(t, failure.Hold)
	refuse(l, "a", "dlq")
	for i := range 5 {
		fail(l, fmt.Sprint(i), failure.Provider5xx)
	}
	require.Equal(t, failure.ProviderDown, held(l))
}
