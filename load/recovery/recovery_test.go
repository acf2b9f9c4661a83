package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/load/rig"
)

func TestMain(m *testing.M) { rig.TestMain(m) }

// The shortest outage, so that the program does not rot. How fast this machine is, is not asked here.
func TestAnOutageIsMeasured(t *testing.T) {
	dir, err := rig.TempDir("billing-recovery-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	o, err := parse([]string{"-only", "outage: provider answers 401", "-lasts", "500ms"})
	require.NoError(t, err)
	r, err := measure(t.Context(), o, dir)
	require.NoError(t, err)
	require.Len(t, r.rows, 1)
	require.NoError(t, r.rows[0].err)
	for _, f := range r.rows[0].figures[1:] {
		require.False(t, f.missed, "%+v", f)
	}
	require.NotEqual(t, "0.00 s", r.rows[0].figures[0].measured)
}

func TestOnlyWhatIsThere(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	require.Len(t, o.chosen(), len(faults)+len(stops)+4)
	o, err = parse([]string{"-only", "take-over,stop: idle"})
	require.NoError(t, err)
	require.Len(t, o.chosen(), 2)
	for _, wrong := range [][]string{{"-only", "earthquake"}, {"-backlog", "0"}, {"-outage", "-1s"}} {
		_, err := parse(wrong)
		require.ErrorContains(t, err, wrong[0])
	}
}

func TestWhatIsMissedIsTold(t *testing.T) {
	good := row{"stop", "idle", []figure{within("exit", time.Second, stopWithin), atMost("exit code", 0, 0), memory(50e6)}, nil}
	r := report{rows: []row{good}}
	require.NoError(t, r.verdict())
	for _, bad := range []row{
		{"stop", "late", []figure{within("exit", 11*time.Second, stopWithin)}, nil},
		{"stop", "never", []figure{within("exit", 0, stopWithin)}, nil},
		{"stop", "unclean", []figure{atMost("exit code", 1, 0)}, nil},
		{"stop", "fat", []figure{memory(201e6)}, nil},
		{"stop", "broken", nil, errors.New("no broker")},
	} {
		r.rows = []row{good, bad}
		require.ErrorContains(t, r.verdict(), bad.scenario)
		var table bytes.Buffer
		r.write(&table)
		require.Regexp(t, `asked +≤ 10.00 s +0 +≤ 200 MB\nidle +1.00 s +0 +50 MB\n`+bad.scenario+".* MISSED", table.String())
	}
}

func TestTheSlowestPartitionCounts(t *testing.T) {
	killed := time.Unix(1000, 0)
	after := func(s int) time.Time { return killed.Add(time.Duration(s) * time.Second) }
	a := account{orders: map[string]order{"before": {partition: 0, at: after(-1), charged: after(1)}}}
	for p := range int32(partitions) {
		a.orders[fmt.Sprint(p)] = order{partition: p, at: after(1), charged: after(2 + int(p))}
		a.orders[fmt.Sprintf("%d later", p)] = order{partition: p, at: after(1), charged: after(30)}
	}
	require.Equal(t, 7*time.Second, a.slowestPartition(killed))
	first, last := a.chargesSince(killed)
	require.Equal(t, []time.Time{after(1), after(30)}, []time.Time{first, last})
	delete(a.orders, "3")
	delete(a.orders, "3 later")
	require.Zero(t, a.slowestPartition(killed), "one partition has none")
}
