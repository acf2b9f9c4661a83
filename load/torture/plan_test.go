package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASeedIsAPlan(t *testing.T) {
	with := surroundings{brokers: 3, database: true}
	seven := drawPlan(7, with).String()
	require.Equal(t, seven, drawPlan(7, with).String())
	require.NotEqual(t, seven, drawPlan(8, with).String())
}

// Every kind of fault comes, none hides another one of the same target, and none asks for what is not there.
func TestPlansAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(2000) {
		p := drawPlan(seed, surroundings{brokers: 1})
		until := map[string]time.Duration{}
		for _, f := range p.faults {
			seen[f.kind] = true
			require.NotEqual(t, "crash", f.kind, "the database is not ours to kill")
			require.GreaterOrEqual(t, f.at, until[f.target], "%s", p)
			until[f.target] = f.at + f.lasts
			require.Less(t, f.number, max(p.instances, 1))
		}
	}
	for _, k := range faultKinds {
		require.Equal(t, k.kind != "crash", seen[k.kind], k.kind)
	}
}
