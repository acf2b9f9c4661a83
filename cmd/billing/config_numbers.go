package main

import (
	"slices"
	"strings"
	"time"

	"example.com/billing/internal/billing/pgstore"
)

// leaseMargin is what a lease needs beyond the provider's timeout: two database round trips and the clocks' difference.
const leaseMargin = 2 * time.Second

const (
	year     = 365 * 24 * time.Hour
	maxTiers = 10
)

// checkNumbers holds each number against its bounds first. What is outside of them is a slip of the unit or of a zero.
func (k *checks) checkNumbers() {
	for _, d := range []struct {
		name               string
		value, least, most time.Duration
	}{
		{"ProviderTimeout", k.ProviderTimeout, 100 * time.Millisecond, 5 * time.Minute},
		{"ProviderKeyTTL", k.ProviderKeyTTL, time.Minute, 10 * year},
		{"ProviderMaxProcessing", k.ProviderMaxProcessing, 100 * time.Millisecond, 24 * time.Hour},
		{"Lease", k.Lease, time.Second, 10 * time.Minute},
		{"KeyMargin", k.KeyMargin, time.Second, year},
		{"LeaveAfter", k.LeaveAfter, time.Second, 24 * time.Hour},
		{"LongestOutage", k.LongestOutage, time.Minute, year},
		{"StopTimeout", k.StopTimeout, 3 * time.Second, 10 * time.Minute},
	} {
		if d.value < d.least || d.value > d.most {
			k.bad(d.name, "%s is not between %s and %s", short(d.value), short(d.least), short(d.most))
		}
	}
	for _, n := range []struct {
		name               string
		value, least, most int
	}{
		{"Concurrency", k.Concurrency, 1, 20000},
		{"DatabaseMaxConns", k.DatabaseMaxConns, pgstore.MinConns, 1000}, // claims, settlements, the relay and the admin API
		{"ReplayCeiling", k.ReplayCeiling, 1, 1000},
		{"FloodCount", k.FloodCount, 0, 1_000_000},
	} {
		if n.value < n.least || n.value > n.most {
			k.bad(n.name, "%d is not between %d and %d", n.value, n.least, n.most)
		}
	}
	if !(k.FloodRatio > 0 && k.FloodRatio <= 1) { // NaN is neither
		k.bad("FloodRatio", "%v is not more than 0 and at most 1", k.FloodRatio)
	}
	k.checkDelays()
	if !k.unread {
		k.checkRelations()
	}
}

// checkDelays: the delays name topics, so two that are the same or differ by less than a millisecond would be one topic.
func (k *checks) checkDelays() {
	const least, most = 100 * time.Millisecond, 30 * 24 * time.Hour
	switch d := k.RetryDelays; {
	case len(d) == 0 || len(d) > maxTiers:
		k.bad("RetryDelays", "holds %d delays, want 1 to %d", len(d), maxTiers)
	case !slices.IsSorted(d) || len(slices.Compact(slices.Clone(d))) < len(d):
		k.bad("RetryDelays", "%v is not ascending, or holds a delay twice", d)
	case d[0] < least || d[len(d)-1] > most:
		k.bad("RetryDelays", "%v are not all between %s and %s", d, short(least), short(most))
	case slices.ContainsFunc(d, func(one time.Duration) bool { return one%time.Millisecond != 0 }):
		k.bad("RetryDelays", "%v holds parts of a millisecond", d)
	}
}

// checkRelations holds the numbers against each other.
func (k *checks) checkRelations() {
	if k.Lease < k.ProviderTimeout+leaseMargin {
		k.bad("Lease", "%s is shorter than BILLING_PROVIDER_TIMEOUT (%s) and a margin of %s: another instance would take an order over while it is being charged",
			short(k.Lease), short(k.ProviderTimeout), leaseMargin)
	}
	if least := k.Lease + k.ProviderMaxProcessing; k.KeyMargin < least {
		k.bad("KeyMargin", "%s is shorter than BILLING_LEASE and BILLING_PROVIDER_MAX_PROCESSING together (%s): a sender that wakes late could send a forgotten key",
			short(k.KeyMargin), short(least))
	}
	if k.ProviderKeyTTL <= k.KeyMargin {
		k.bad("ProviderKeyTTL", "%s is not longer than BILLING_KEY_MARGIN (%s): no key could ever be sent again", short(k.ProviderKeyTTL), short(k.KeyMargin))
	}
	var waits time.Duration
	for _, d := range k.RetryDelays {
		waits += d
	}
	if age := time.Duration(k.MaxAge); age < 0 || age > 10*year || age > 0 && age <= waits {
		k.bad("MaxAge", "%s is neither off nor between all of BILLING_RETRY_DELAYS together (%s) and %s: orders would die of waiting for their retry", short(age), short(waits), short(10*year))
	}
}

// short leaves out what is 0 at the end: 24h, not 24h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
