package main

import (
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/rig"
)

const (
	providerToken = "torture-provider-token"
	providerSlow  = 1500 * time.Millisecond // longer than the service waits
)

func startProvider(p plan) (*rig.Provider, error) {
	return rig.StartProvider(providersim.Config{
		Token: providerToken, Latency: 5 * time.Millisecond, Jitter: 20 * time.Millisecond, SlowFor: providerSlow, Seed: p.seed, Rules: p.rules,
	})
}
