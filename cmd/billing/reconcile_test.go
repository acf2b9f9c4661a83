package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/reconcile"
)

func TestReconcileRequest(t *testing.T) {
	latest := time.Date(2026, 1, 3, 12, 0, 0, 0, time.UTC)
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return v
	}
	for name, c := range map[string]struct {
		flags reconcileFlags
		want  reconcile.Request
	}{
		"the last day": {reconcileFlags{}, reconcile.Request{Unknown: true, Range: true, From: at("2026-01-02T12:00:00Z"), To: latest}},
		"a span": {reconcileFlags{from: "2026-01-01T00:00:00Z", to: "2026-01-02T00:00:00+01:00", rangeOnly: true},
			reconcile.Request{Range: true, From: at("2026-01-01T00:00:00Z"), To: at("2026-01-02T00:00:00+01:00")}},
		"a day":   {reconcileFlags{to: "2026-01-02T00:00:00Z"}, reconcile.Request{Unknown: true, Range: true, From: at("2026-01-01T00:00:00Z"), To: at("2026-01-02T00:00:00Z")}},
		"unknown": {reconcileFlags{unknownOnly: true}, reconcile.Request{Unknown: true, From: at("2026-01-02T12:00:00Z"), To: latest}},
		"resumed": {reconcileFlags{resume: true}, reconcile.Request{Unknown: true, Range: true, Resume: true, From: at("2026-01-02T12:00:00Z"), To: latest}},
	} {
		c.flags.output = "table"
		q, err := c.flags.request(latest)
		require.NoError(t, err, name)
		require.True(t, q.From.Equal(c.want.From) && q.To.Equal(c.want.To), name)
		q.From, q.To = c.want.From, c.want.To
		require.Equal(t, c.want, q, name)
	}
	for problem, f := range map[string]reconcileFlags{
		"--from":         {from: "yesterday"},
		"--to":           {to: "2026-01-02"},
		"not before":     {from: "2026-01-02T00:00:00Z", to: "2026-01-02T00:00:00Z"},
		"on their way":   {from: "2026-01-03T12:00:00Z", to: "2026-01-03T13:00:00Z"},
		"--unknown-only": {unknownOnly: true, from: "2026-01-02T00:00:00Z"},
		"goes with no":   {unknownOnly: true, rangeOnly: true},
		"--resume":       {resume: true, to: "2026-01-02T00:00:00Z"},
		"--sample":       {sample: -1},
	} {
		_, err := f.request(latest)
		require.ErrorContains(t, err, problem)
		require.Equal(t, exitUsage, exitCode(err))
	}
}

func TestPrintReport(t *testing.T) {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	report := reconcile.Report{
		Unknown: &reconcile.UnknownReport{Looked: 3, Charged: 1, NotCharged: 1, Left: 1, Letters: 1},
		Range: &reconcile.RangeReport{
			From: at, To: at.Add(24 * time.Hour), Until: at.Add(6 * time.Hour), There: 12, Here: 11, LookedUp: 2,
			Findings: reconcile.Findings{Total: 3, Listed: []reconcile.Difference{
				{Kind: reconcile.NotRecorded, OrderID: uuid.Nil, ChargeID: "ch_1\x1b[2J", There: "1.00 EUR"},
				{Kind: reconcile.MissingThere, OrderID: uuid.MustParse("0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a01"), ChargeID: "ch_2", Here: "succeeded 1.00 EUR ch_2"},
			}},
		},
	}
	var out bytes.Buffer
	require.NoError(t, printReport(&out, report))
	require.Equal(t, `unknown outcomes: 3 looked at; 1 were charged, 1 were not, 1 are still unknown, 0 busy or known by now; 1 dead letters resolved
charges from 2026-01-02T00:00:00Z to 2026-01-03T00:00:00Z: 12 there, 11 orders here
looked up: 2 orders, 0 of 0 with more than one claim; 0 unknown outcomes resolved, 0 busy, 0 unproven
not finished: compared up to 2026-01-02T06:00:00Z
DIFFERENCE     ORDER                                 CHARGE    THERE     HERE
not_recorded   -                                     ch_1.[2J  1.00 EUR  -
missing_there  0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a01  ch_2      -         succeeded 1.00 EUR ch_2
3 differences, 1 of them not listed
`, out.String())
	require.Equal(t, " 25 %  compared up to 2026-01-02T06:00:00Z: 12 there, 11 here, 3 differences", progressLine(report))
	require.Equal(t, "unknown outcomes: 3 looked at, 1 were charged", progressLine(reconcile.Report{Unknown: report.Unknown}))
}
