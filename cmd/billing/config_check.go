package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

// check holds the rules that one value or several must keep.
func (c *Config) check(required []string) (problems []string) {
	bad := func(name, format string, args ...any) {
		f, _ := reflect.TypeFor[Config]().FieldByName(name)
		problems = append(problems, problem(f, fmt.Sprintf(format, args...)))
	}
	for _, name := range required {
		if reflect.ValueOf(*c).FieldByName(name).String() == "" {
			bad(name, "is required")
		}
	}
	if !strings.HasPrefix(c.ProviderURL, "http://") && !strings.HasPrefix(c.ProviderURL, "https://") && c.ProviderURL != "" {
		bad("ProviderURL", "does not begin with http:// or https://")
	}
	if _, err := kafkaclient.ParseExtra(c.KafkaExtra); err != nil {
		bad("KafkaExtra", "%v", err)
	}
	if !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, strings.ToUpper(c.KafkaSecurityProtocol)) {
		bad("KafkaSecurityProtocol", "%q is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", c.KafkaSecurityProtocol)
	}
	if p := failure.Policy(c.FaultPolicy); p != failure.Hold && p != failure.Document {
		bad("FaultPolicy", "%q is not hold or document", c.FaultPolicy)
	}
	if !billing.KnownCurrency(c.Currency) {
		bad("Currency", "%q is not an ISO 4217 code", c.Currency)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		bad("LogLevel", "%q is not debug, info, warn or error", c.LogLevel)
	}
	if _, err := admin.ParseTokens(c.AdminTokens); err != nil {
		bad("AdminTokens", "%v", err)
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		bad("LogFormat", "%q is not json or text", c.LogFormat)
	}
	c.checkNumbers(bad)
	return problems
}

// leaseMargin is what a lease needs beyond the provider's timeout: two database round trips and the clocks' difference.
const leaseMargin = 2 * time.Second

func (c *Config) checkNumbers(bad func(name, format string, args ...any)) {
	if c.Concurrency < 1 || c.Concurrency > 20000 {
		bad("Concurrency", "%d is not between 1 and 20000", c.Concurrency)
	}
	if c.DatabaseMaxConns < 4 {
		bad("DatabaseMaxConns", "%d is too few: claims, settlements, the relay and the admin API need 4 at least", c.DatabaseMaxConns)
	}
	if c.ProviderTimeout <= 0 {
		bad("ProviderTimeout", "%s is not more than 0", c.ProviderTimeout)
	}
	if c.Lease < c.ProviderTimeout+leaseMargin {
		bad("Lease", "%s is shorter than BILLING_PROVIDER_TIMEOUT (%s) and a margin of %s: another instance would take an order over while it is being charged", c.Lease, c.ProviderTimeout, leaseMargin)
	}
	if least := c.Lease + c.ProviderMaxProcessing; c.KeyMargin < least {
		bad("KeyMargin", "%s is shorter than BILLING_LEASE and BILLING_PROVIDER_MAX_PROCESSING together (%s): a sender that wakes late could send a forgotten key", c.KeyMargin, least)
	}
	if c.ProviderKeyTTL <= c.KeyMargin {
		bad("ProviderKeyTTL", "%s is not longer than BILLING_KEY_MARGIN (%s): no key could ever be sent again", c.ProviderKeyTTL, c.KeyMargin)
	}
	if c.ProviderMaxProcessing <= 0 {
		bad("ProviderMaxProcessing", "%s is not more than 0", c.ProviderMaxProcessing)
	}
	if c.StopTimeout < 3*time.Second {
		bad("StopTimeout", "%s is shorter than 3s", c.StopTimeout)
	}
	if c.LeaveAfter < time.Second {
		bad("LeaveAfter", "%s is shorter than 1s", c.LeaveAfter)
	}
	if c.LongestOutage <= 0 {
		bad("LongestOutage", "%s is not more than 0", c.LongestOutage)
	}
	if c.MaxAge < 0 {
		bad("MaxAge", "%s is negative", time.Duration(c.MaxAge))
	}
	if c.ReplayCeiling < 1 {
		bad("ReplayCeiling", "%d is not at least 1", c.ReplayCeiling)
	}
	if c.FloodRatio <= 0 || c.FloodRatio > 1 {
		bad("FloodRatio", "%v is not more than 0 and at most 1", c.FloodRatio)
	}
	if c.FloodCount < 0 {
		bad("FloodCount", "%d is negative", c.FloodCount)
	}
	if len(c.RetryDelays) == 0 || slices.Min(c.RetryDelays) <= 0 || !slices.IsSorted(c.RetryDelays) || len(slices.Compact(slices.Clone(c.RetryDelays))) < len(c.RetryDelays) {
		bad("RetryDelays", "%v is not a list of ascending durations", c.RetryDelays)
	}
}
