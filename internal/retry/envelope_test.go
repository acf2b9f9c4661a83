package retry

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

func header(k, v string) kafkaclient.Header { return kafkaclient.Header{Key: k, Value: []byte(v)} }

func message(topic string, hs ...kafkaclient.Header) kafkaclient.Message {
	return kafkaclient.Message{Topic: topic, Partition: 2, Offset: 7, Key: []byte("k"), Value: []byte("v"), Headers: hs, Timestamp: testNow.Add(-time.Second)}
}

// A header that is missing, negative, huge, no number or repeated is clamped by the topic; a valid one is kept, also when it
// is lower than the topic's rank (H15, H16). It can never lengthen the ladder.
func TestAttemptHeader(t *testing.T) {
	for _, c := range []struct {
		name, topic string
		headers     []kafkaclient.Header
		want        int
	}{
		{"missing on the main topic", "orders.confirmed", nil, 0},
		{"missing on a tier", "orders.confirmed.retry-30s", nil, 2},
		{"negative", "orders.confirmed", []kafkaclient.Header{header(HeaderAttempt, "-1")}, 0},
		{"huge", "orders.confirmed.retry-5s", []kafkaclient.Header{header(HeaderAttempt, "99999999999999999999")}, 1},
		{"above the ladder", "orders.confirmed.retry-5s", []kafkaclient.Header{header(HeaderAttempt, "4")}, 1},
		{"no number", "orders.confirmed.retry-5m", []kafkaclient.Header{header(HeaderAttempt, "abc")}, 3},
		{"empty", "orders.confirmed.retry-5m", []kafkaclient.Header{header(HeaderAttempt, "")}, 3},
		{"twice", "orders.confirmed.retry-5s", []kafkaclient.Header{header(HeaderAttempt, "0"), header(HeaderAttempt, "0")}, 1},
		{"lower than the rank: a tier was skipped", "orders.confirmed.retry-5m", []kafkaclient.Header{header(HeaderAttempt, "1")}, 1},
		{"valid on the main topic", "orders.confirmed", []kafkaclient.Header{header(HeaderAttempt, "2")}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, testLadder.Open(message(c.topic, c.headers...), testNow).Failures)
		})
	}
}

func TestHeadersThatTellOfAttempts(t *testing.T) { // H3
	for _, c := range []struct {
		topic, key, value string
		want              bool
	}{
		{"orders.confirmed", "tenant", "a", false},
		{"orders.confirmed", HeaderAttempt, "0", false},
		{"orders.confirmed", HeaderAttempt, "1", true},
		{"orders.confirmed", HeaderReplayID, "?", true},
		{"orders.confirmed", HeaderReplayCount, "1", true},
		{"orders.confirmed.retry-5s", "tenant", "a", true},
		{"orders.confirmed.retry-5s", HeaderAttempt, "0", false}, // it waited for a rate limit
		{"orders.confirmed.retry-5s", HeaderAttempt, "1", true},
	} {
		require.Equal(t, c.want, testLadder.Open(message(c.topic, header(c.key, c.value)), testNow).Tried, "%+v", c)
	}
}

func TestDueTime(t *testing.T) {
	const topic = "orders.confirmed.retry-30s"
	for _, c := range []struct {
		name, header string
		want         time.Time
	}{
		{"header", millis(testNow.Add(10 * time.Second)), testNow.Add(10 * time.Second)},
		{"header in the past", millis(testNow.Add(-time.Hour)), testNow.Add(-time.Hour)},
		{"header too far ahead", millis(testNow.Add(time.Hour)), testNow.Add(32 * time.Second)},
		{"no number", "soon", testNow.Add(29 * time.Second)},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testLadder.Open(message(topic, header(HeaderNotBefore, c.header)), testNow)
			require.True(t, c.want.Equal(e.NotBefore), e.NotBefore)
		})
	}
	for _, ahead := range []time.Duration{time.Hour, 72 * time.Hour} { // the cap must not move with the clock (hazard H24)
		byHeader, byTime := message(topic, header(HeaderNotBefore, millis(testNow.Add(ahead)))), message(topic)
		byTime.Timestamp = testNow.Add(ahead)
		for _, m := range []kafkaclient.Message{byHeader, byTime} {
			m.Received = testNow
			for _, later := range []time.Duration{0, time.Second, time.Minute, ahead} {
				require.True(t, testNow.Add(30*time.Second+maxSkew).Equal(testLadder.Open(m, testNow.Add(later)).NotBefore), "%s later", later)
				due, cut := testLadder.Due(m, testNow.Add(later))
				require.True(t, cut)
				require.True(t, testNow.Add(30*time.Second+maxSkew).Equal(due))
			}
		}
	}
	_, cut := testLadder.Due(message(topic, header(HeaderNotBefore, millis(testNow.Add(30*time.Second)))), testNow)
	require.False(t, cut, "a full delay is nothing odd")
	require.True(t, testLadder.Open(message("orders.confirmed", header(HeaderNotBefore, millis(testNow.Add(time.Hour)))), testNow).NotBefore.IsZero(), "the main topic never waits")
}

// Whatever the headers claim, the record stands for itself until that is proven.
func TestClaims(t *testing.T) {
	origin := []kafkaclient.Header{header(HeaderOriginalTopic, "orders.confirmed"), header(HeaderOriginalPartition, "5"), header(HeaderOriginalOffset, "99")}
	id := uuid.New()
	for _, topic := range []string{"orders.confirmed", "orders.confirmed.retry-5s"} {
		e := testLadder.Open(message(topic, append(origin, header(HeaderReplayCount, "1"), header(HeaderReplayID, id.String()))...), testNow)
		require.Equal(t, []any{topic, int32(2), int64(7), 0, uuid.Nil}, []any{e.OriginTopic, e.OriginPart, e.OriginOffset, e.ReplayCount, e.ReplayID})
		require.Equal(t, Claim{Topic: "orders.confirmed", Part: 5, Offset: 99, ReplayID: id}, e.Claim)
	}
	for i := range origin {
		for _, broken := range []string{"", "a b", "-1 ", "99999999999999999999 "} {
			hs := append([]kafkaclient.Header{}, origin...)
			hs[i] = header(hs[i].Key, broken)
			require.Zero(t, testLadder.Open(message("orders.confirmed.retry-5s", hs...), testNow).Claim, hs[i])
		}
	}
}

// Key and value travel byte for byte; our headers are set once however many hops; foreign ones stay within bounds.
func TestRecord(t *testing.T) {
	m := message("orders.confirmed", header("tenant", "a"), header("big", strings.Repeat("x", maxForeign)), header("tenant", "b"), header(HeaderTraceparent, "00-1-2-01"))
	f := failure.New(failure.Provider5xx, "line one\nline two \x1b[2J \u009b2J \u202eturned \xff %s", strings.Repeat("é", 2000))
	e := testLadder.Open(m, testNow)
	r := e.Record(testLadder.Next(e, f, failure.OfDependency, testNow), f, testNow)
	for hop := range 5 {
		next := kafkaclient.Message{Topic: r.Topic, Offset: int64(hop), Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: testNow}
		e = testLadder.Open(next, testNow)
		e.OriginTopic, e.OriginPart, e.OriginOffset, e.FirstFailure = e.Claim.Topic, e.Claim.Part, e.Claim.Offset, e.Claim.FirstFailure // as proven
		r = e.Record(Step{Topic: testLadder.Tiers()[hop%3].Topic, Failures: 3}, f, testNow)
	}
	require.Equal(t, []byte("k"), r.Key)
	require.Equal(t, []byte("v"), r.Value)
	count, size := map[string]int{}, 0
	values := map[string]string{}
	for _, h := range r.Headers {
		count[h.Key]++
		size += len(h.Key) + len(h.Value)
		values[h.Key] = string(h.Value)
	}
	for k, n := range count {
		if k != "tenant" {
			require.Equal(t, 1, n, k)
		}
	}
	require.Equal(t, 2, count["tenant"])
	require.Zero(t, count["big"])
	require.Less(t, size, maxForeign+4096)
	require.Equal(t, "7", values[HeaderOriginalOffset], "the origin survives every hop")
	require.Equal(t, millis(testNow), values[HeaderFirstFailureAt])
	require.Equal(t, "provider_5xx", values[HeaderErrorReason])
	require.LessOrEqual(t, len(values[HeaderError]), 1024)
	require.Contains(t, values[HeaderError], "line one line two  [2J  2J  turned \uFFFD é")
	require.Equal(t, "00-1-2-01", values[HeaderTraceparent])
}

// However many headers a record has, and whatever ours say, what travels on is small and our own stand in it once.
func TestManyHeaders(t *testing.T) {
	hs := []kafkaclient.Header{header("first", "kept")}
	for i := range 10_000 {
		hs = append(hs, header("foreign", strconv.Itoa(i)), header(HeaderAttempt, "2"), header(HeaderError, strings.Repeat("x", 1024)),
			header(HeaderOriginalTopic, strings.Repeat("t", 1024)), header(HeaderNotBefore, strings.Repeat("9", 1024)), header(HeaderReplayID, strings.Repeat("z", 1024)))
	}
	hs = append(hs, header("large", strings.Repeat("x", 900<<10)))
	e := testLadder.Open(message("orders.confirmed.retry-5s", hs...), testNow)
	require.Equal(t, 1, e.Failures, "a header that stands there ten thousand times says nothing")
	r := e.Record(Step{Topic: "t", Failures: 2}, failure.New(failure.Provider5xx, "503"), testNow)
	size, ours := 0, map[string]int{}
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
		if Ours(h.Key) {
			ours[h.Key]++
		}
	}
	require.Less(t, size, maxForeign+4096)
	for key, n := range ours {
		require.Equal(t, 1, n, key)
	}
	require.Equal(t, "first", r.Headers[0].Key)
}

func FuzzOpen(f *testing.F) {
	f.Add("x-retry-attempt", []byte("-1"), "orders.confirmed")
	f.Add("x-not-before", []byte("99999999999999999999"), "orders.confirmed.retry-5s")
	f.Add("x-original-partition", []byte("4294967296"), "orders.confirmed.retry-5m")
	f.Fuzz(func(t *testing.T, key string, value []byte, topic string) {
		e := testLadder.Open(message(topic, kafkaclient.Header{Key: key, Value: value}), testNow)
		if e.Failures < 0 || e.Failures > 3 || e.Waits > maxWaits || e.OriginPart < 0 {
			t.Fatalf("not clamped: %+v", e)
		}
		if e.NotBefore.After(testNow.Add(5*time.Minute + maxSkew)) {
			t.Fatalf("waits too long: %s", e.NotBefore)
		}
		r := e.Record(Step{Topic: "t", Failures: 1}, failure.New(failure.NotJSON, "%s", value), testNow)
		if !bytes.Equal(r.Value, []byte("v")) {
			t.Fatal("the value changed")
		}
	})
}
