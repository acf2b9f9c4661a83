package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/testkit"
)

func TestDemoFaultsAreValid(t *testing.T) {
	_, err := providersim.New(demoMoods(1))
	require.NoError(t, err)
}

// The demo from its start to its balance, which must be even: no order without a fate, none charged twice.
func TestDemoEndsEven(t *testing.T) {
	testkit.NeedsServer(t)
	setRequired(t)
	t.Setenv("BILLING_DATABASE_URL", "")
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	err := runDemo(ctx, &out, demoFlags{rate: 200, duration: 8 * time.Second, seed: 7, http: "127.0.0.1:0", logs: false})
	require.NoError(t, err, out.String())
	t.Logf("%s in all\n%s", time.Since(began).Round(time.Millisecond), out.String())
	require.Regexp(t, `difference +0\n`, out.String())
	require.Contains(t, out.String(), "0 of them more than once")
	require.Regexp(t, `charged +[1-9][0-9]{2,}`, out.String())
	require.Contains(t, out.String(), "/replay?target_topic=orders.confirmed'")
}
