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

// Every kind of fault comes, none hides another one of the same target, none asks for what is not there, and orders come for as
// long as there are faults.
func TestPlansAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(3000) {
		p := drawPlan(seed, surroundings{brokers: 1})
		until := map[string]time.Duration{}
		for _, f := range p.faults {
			seen[f.kind] = true
			for _, target := range f.targets() {
				require.GreaterOrEqual(t, f.at, until[target], "%s", p)
				until[target] = f.at + f.lasts
			}
			require.Less(t, f.number, max(p.instances, 1))
			require.GreaterOrEqual(t, p.spell, min(f.at+f.lasts, maxSpell), "%s", p)
		}
		require.GreaterOrEqual(t, float64(p.events), leastRate*p.spell.Seconds()-1)
	}
	needs := map[string]bool{"crash": true, "deploy": true} // a server of ours to kill, an earlier release
	for _, k := range faultKinds {
		require.Equal(t, !needs[k.kind], seen[k.kind], k.kind)
	}
}

// Whoever names kinds gets those alone, and is told of one that there is not.
func TestOnlyTheKindsAskedFor(t *testing.T) {
	o, err := parse([]string{"-faults", "sql,setback"})
	require.NoError(t, err)
	for seed := range uint64(50) {
		for _, f := range drawPlan(seed, o.surroundings).faults {
			require.Contains(t, []string{"sql", "setback"}, f.kind)
		}
	}
	_, err = parse([]string{"-faults", "sql,earthquake"})
	require.ErrorContains(t, err, `no kind "earthquake"; there are kill stop`)
	_, err = parse([]string{"-faults", "deploy"})
	require.ErrorContains(t, err, "-older")
	_, err = parse([]string{"-faults", "deploy", "-older", "bin/billing-1.0"})
	require.NoError(t, err)
}

// A plan begins with its deploy: the release before is not judged by the faults that come after.
func TestADeployComesFirst(t *testing.T) {
	n := 0
	for seed := range uint64(500) {
		p := drawPlan(seed, surroundings{brokers: 3, database: true, older: true})
		for i, f := range p.faults {
			if f.kind == "deploy" && i == 0 {
				n++
			}
			require.True(t, i == 0 || p.faults[0].kind != "deploy" || f.at >= p.faults[0].lasts, "%s", p)
		}
	}
	require.Positive(t, n)
}
