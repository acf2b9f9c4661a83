package retry_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// FuzzOpenDeadLetter: whatever stands in the headers, the letter has a reason of the closed list and safe texts, and its
// replay begins a new ladder with key and value untouched.
func FuzzOpenDeadLetter(f *testing.F) {
	f.Add("provider_5xx", "exhausted", "503", "orders", "1", "7", "4", "2", "6f1b1f0e-7a6e-5d0b-9a55-3c1f4f6f2b10", "1767366000000")
	f.Add("\x00", "made_up", "a\x00\xff", "or\x00ders", "-1", "99999999999999999999", "abc", "1e3", "{}", "-5")
	ladder := retry.NewLadder("orders", "billing", []time.Duration{5 * time.Second, 30 * time.Second})
	f.Fuzz(func(t *testing.T, reason, class, text, topic, partition, offset, attempt, replays, replay, at string) {
		m := kafkaclient.Message{Topic: ladder.DeadLetters(), Key: []byte("k"), Value: []byte(text)}
		for k, v := range map[string]string{
			retry.HeaderErrorReason: reason, retry.HeaderErrorClass: class, retry.HeaderError: text, retry.HeaderOriginalTopic: topic,
			retry.HeaderOriginalPartition: partition, retry.HeaderOriginalOffset: offset, retry.HeaderAttempt: attempt,
			retry.HeaderReplayCount: replays, retry.HeaderReplayID: replay, retry.HeaderFirstFailureAt: at, retry.HeaderOriginalTimestamp: at,
		} {
			m.Headers = append(m.Headers, kafkaclient.Header{Key: k, Value: []byte(v)})
		}
		d := retry.OpenDeadLetter(m)
		require.True(t, d.Reason.Known())
		require.True(t, retry.KnownClass(d.Class))
		require.NotContains(t, d.Error, "\x00")
		require.GreaterOrEqual(t, d.Failures, 0)
		require.GreaterOrEqual(t, d.ReplayCount, 0)

		id, now := uuid.New(), time.Now().Truncate(time.Millisecond)
		sent := d.Replay(ladder.Tiers()[0].Topic, id, now)
		require.Equal(t, m.Key, sent.Key)
		require.Equal(t, m.Value, sent.Value)
		e := ladder.Open(kafkaclient.Message{Topic: sent.Topic, Partition: 3, Offset: 9, Headers: sent.Headers}, now)
		require.Zero(t, e.Failures)
		require.True(t, e.Tried)
		require.Equal(t, id, e.Claim.ReplayID)
		require.Equal(t, []any{d.OriginTopic, d.OriginPart, d.OriginOffset}, []any{e.Claim.Topic, e.Claim.Part, e.Claim.Offset})
		require.False(t, e.NotBefore.After(now))
	})
}

func TestARepeatedHeaderCountsAsMissing(t *testing.T) {
	m := kafkaclient.Message{Headers: []kafkaclient.Header{
		{Key: retry.HeaderErrorReason, Value: []byte("declined")}, {Key: retry.HeaderErrorReason, Value: []byte("not_json")},
	}}
	require.Equal(t, failure.Unclassified, retry.OpenDeadLetter(m).Reason)
}
