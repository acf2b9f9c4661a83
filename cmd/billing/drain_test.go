package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/kafkaclient"
)

// A record goes to the first retry topic that waits as long as it must, due at the same time, with a count of failures that is
// possible there; everything else of it stays.
func TestWhereADrainHandsARecordOn(t *testing.T) {
	const main = "orders.confirmed"
	cfg := Config{Topic: main, Group: "g", RetryDelays: []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}}
	d := newDrain(cfg, pgstore.KnownTopic{Name: main + ".retry-1h"}, nil, books{}, nil)
	require.Equal(t, time.Hour, d.delay)
	now := time.Now().Truncate(time.Millisecond)
	at := func(in time.Duration) string { return strconv.FormatInt(now.Add(in).UnixMilli(), 10) }
	for name, c := range map[string]struct {
		headers  map[string]string
		written  time.Duration // from now
		to       string
		due      time.Duration // from now
		failures string
	}{
		"due before":                  {map[string]string{"x-not-before": at(-time.Minute), "x-retry-attempt": "2"}, -time.Hour, "5s", -time.Minute, "2"},
		"due soon":                    {map[string]string{"x-not-before": at(4 * time.Second)}, 0, "5s", 4 * time.Second, ""},
		"due later":                   {map[string]string{"x-not-before": at(6 * time.Second)}, 0, "30s", 6 * time.Second, ""},
		"due much later":              {map[string]string{"x-not-before": at(4 * time.Minute)}, 0, "5m", 4 * time.Minute, ""},
		"later than any":              {map[string]string{"x-not-before": at(50 * time.Minute)}, 0, "5m", 50 * time.Minute, ""},
		"more failures than are left": {map[string]string{"x-not-before": at(0), "x-retry-attempt": "7"}, 0, "5s", 0, "3"},
		"no header":                   {nil, -59*time.Minute - 50*time.Second, "30s", 10 * time.Second, ""},
		"a broken header":             {map[string]string{"x-not-before": "soon"}, -time.Hour, "5s", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := kafkaclient.Message{Key: []byte("k"), Value: []byte("v"), Timestamp: now.Add(c.written), Headers: []kafkaclient.Header{{Key: "x-original-offset", Value: []byte("7")}}}
			for k, v := range c.headers {
				m.Headers = append(m.Headers, kafkaclient.Header{Key: k, Value: []byte(v)})
			}
			r := d.fromTier(m)
			got := map[string]string{}
			for _, h := range r.Headers {
				require.NotContains(t, got, h.Key, "a header stands once")
				got[h.Key] = string(h.Value)
			}
			require.Equal(t, main+".retry-"+c.to, r.Topic)
			require.Equal(t, []string{at(c.due), c.failures, "7"}, []string{got["x-not-before"], got["x-retry-attempt"], got["x-original-offset"]})
			require.Equal(t, []string{"k", "v"}, []string{string(r.Key), string(r.Value)})
		})
	}
}

// A due time that cannot be true is no later than a full delay from when the drain began, or from when it was written since.
func TestADrainWaitsNoLongerThanTheDelay(t *testing.T) {
	cfg := Config{Topic: "orders", Group: "g", RetryDelays: []time.Duration{time.Second}}
	d := newDrain(cfg, pgstore.KnownTopic{Name: "orders.retry-1m"}, nil, books{}, nil)
	far := []kafkaclient.Header{{Key: "x-not-before", Value: []byte(strconv.FormatInt(d.began.Add(48*time.Hour).UnixMilli(), 10))}}
	for name, written := range map[string]time.Time{"long ago": d.began.Add(-time.Hour), "in the future": d.began.Add(48 * time.Hour)} {
		due := d.due(kafkaclient.Message{Timestamp: written, Headers: far})
		require.WithinDuration(t, time.Now().Add(time.Minute+clockSkew), due, time.Second, name)
	}
}
