package main

import (
	"context"
	"fmt"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/limiter"
	"example.com/billing/internal/platform/telemetry"
)

// registerLimit shows how many charges may be at the provider, and why it is fewer than configured.
func registerLimit(m *telemetry.Metrics, limit func() limiter.Limit) {
	one := func(value func(limiter.Limit) float64) func() []telemetry.Gauge {
		return func() []telemetry.Gauge { return []telemetry.Gauge{{Value: value(limit())}} }
	}
	m.GaugeFunc("billing_concurrency_limit", "Charges that may be at the provider at a time.", nil,
		one(func(l limiter.Limit) float64 { return float64(l.Inside) }))
	m.GaugeFunc("billing_concurrency_limited", "1 while the limit is lower than configured, for the reason.", []string{"reason"}, func() []telemetry.Gauge {
		limited := 0.0
		if limit().PerSecond > 0 {
			limited = 1
		}
		return []telemetry.Gauge{{Labels: []string{string(failure.ProviderRateLimited)}, Value: limited}}
	})
	m.GaugeFunc("billing_charge_rate_limit", "Charges that may begin in a second; 0 while nothing but the concurrency bounds them.", nil,
		one(func(l limiter.Limit) float64 { return l.PerSecond }))
}

// limitPart tells the limit in the readiness. A lower one is no reason not to be ready.
func limitPart(limit func() limiter.Limit) admin.Part {
	return admin.Part{Name: "concurrency", Check: func(context.Context) admin.Health {
		l := limit()
		if l.PerSecond == 0 {
			return admin.Health{State: admin.Ready}
		}
		return admin.Health{
			State: admin.Ready, Reason: failure.ProviderRateLimited,
			Detail: fmt.Sprintf("%d charges at a time, %.0f a second", l.Inside, l.PerSecond),
		}
	}}
}
