package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/platform/kafkaclient"
)

func TestRecordTimesInSecondsAreTold(t *testing.T) {
	var text bytes.Buffer
	watch := watchTimes(slog.New(slog.NewTextHandler(&text, nil)))
	now := time.Now()
	watch(kafkaclient.Message{Topic: "orders", Timestamp: now}, now)
	watch(kafkaclient.Message{Topic: "orders", Timestamp: now.AddDate(-50, 0, 0)}, now)
	require.Empty(t, text.String())
	wrong := kafkaclient.Message{Topic: "orders", Offset: 7, Timestamp: time.UnixMilli(now.Unix())}
	for range 100 {
		watch(wrong, now)
	}
	require.Equal(t, 1, strings.Count(text.String(), "time is in seconds"), "once a minute")
	require.Contains(t, text.String(), "offset=7")
	watch(wrong, now.Add(time.Minute))
	require.Equal(t, 2, strings.Count(text.String(), "time is in seconds"))
}
