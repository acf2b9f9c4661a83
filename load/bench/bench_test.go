package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/load/bench/ledger"
)

func TestFlags(t *testing.T) {
	o, err := parse([]string{"-only", "floor,service", "-latency", "0,20ms", "-inflight", "64", "-full"})
	require.NoError(t, err)
	require.Equal(t, []string{"floor", "service"}, o.programs)
	require.Equal(t, []time.Duration{0, 20 * time.Millisecond}, o.latencies)
	require.Equal(t, []int{64}, o.inFlight)
	require.Contains(t, o.parts, "memory")
	for _, wrong := range [][]string{{"-only", "spring"}, {"-parts", "all"}, {"-latency", "20"}, {"-latency", "-1s"}, {"-inflight", "0"}, {"-inflight", "many"}} {
		_, err := parse(wrong)
		require.ErrorContains(t, err, wrong[0])
	}
}

func TestBacklogs(t *testing.T) {
	require.Equal(t, 40_000, options{}.backlog("service", 0))
	require.Equal(t, 20_000, options{}.backlog("floor", time.Millisecond))
	require.Equal(t, 98, options{}.backlog("loop", 100*time.Millisecond), "ten seconds' worth")
	require.Equal(t, 2_000, options{quick: true}.backlog("service", time.Millisecond))
	require.Equal(t, 500, options{quick: true, n: 500}.backlog("service", 0))
}

func TestSpread(t *testing.T) {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(1000-i))
	}
	require.Equal(t, spread{Program: "service", Count: 1000, Least: 1, P50: 501, P99: 991, Most: 1000}, spreadOf("service", all))
	require.Zero(t, spreadOf("", nil))
}

func TestLateness(t *testing.T) {
	at := time.Unix(1000, 0)
	late, waiting := latenessOf([]ledger.Order{
		{Charges: 1},        // never failed
		{FirstAnswered: at}, // waits
		{FirstAnswered: at, SecondAsked: at.Add(firstDelay + time.Millisecond)},
		{FirstAnswered: at, SecondAsked: at.Add(firstDelay - time.Millisecond)},
	})
	require.Equal(t, []time.Duration{time.Millisecond, -time.Millisecond}, late)
	require.Equal(t, 1, waiting)
}

func TestReport(t *testing.T) {
	r := report{Throughput: []throughput{
		{Program: "loop", InFlight: 1, Orders: 10, PerSecond: 100, CPU: 600 * time.Microsecond},
		{Program: "floor", InFlight: 256, Orders: 10, PerSecond: 1000, CPU: 40 * time.Microsecond, Twice: 1},
		{Program: "service", InFlight: 256, Orders: 10, PerSecond: 900, CPU: 100 * time.Microsecond, PeakBytes: 50e6},
	}}
	require.NoError(t, r.verdict(), "the floor promises nothing")
	var table bytes.Buffer
	file := filepath.Join(t.TempDir(), "bench.json")
	require.NoError(t, r.write(&table, file))
	require.Regexp(t, `service +10 +900 +90 % +9\.0 +100 +2\.5 +50 MB`, table.String())
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(written), `"charges_per_second": 900`)

	r.Limits = []limits{{Provider: "takes 200/s", Orders: 400, PerSecond: 190, Of: 200, Refused: 0.045}}
	require.NoError(t, r.write(&table, file))
	require.Regexp(t, `takes 200/s +400 +190 +95 % +4\.5 % +0 +0`, table.String())
	r.Limits[0].Twice = 1
	require.ErrorContains(t, r.verdict(), "1 charged twice")
	r.Throughput[2].Missing = 1
	require.ErrorContains(t, r.verdict(), "1 orders missing")
}
