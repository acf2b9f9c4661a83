// Package testkit gives a test its own Kafka topics and its own migrated database, and ways to wait without sleeping.
//
// It starts what it needs by itself: an embedded broker and an embedded PostgreSQL. With BILLING_TEST_KAFKA_BROKERS and
// BILLING_TEST_DATABASE_URL the same tests run against real servers. What cannot be had fails the test. Only -short, which
// `make check` uses, skips the tests that ask for a server. Tests need not clean up, and may run in parallel. Only tests
// import this package.
package testkit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// Patience is how long the helpers wait for what must happen. It is long for the sake of slow machines: a passing test
// never waits it out.
const Patience = 20 * time.Second

// NeedsServer skips the test under -short. Kafka and Postgres call it; a test that starts servers by other means calls it
// itself.
func NeedsServer(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server; runs without -short")
	}
}

// Eventually waits until a condition that nobody signals holds. It looks every few milliseconds.
func Eventually(t testing.TB, holds func() bool, what string, args ...any) {
	t.Helper()
	require.Eventuallyf(t, holds, Patience, 5*time.Millisecond, what, args...)
}

// Receive waits for a signal.
func Receive[T any](t testing.TB, signal <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-signal:
		return v
	case <-time.After(Patience):
		t.Fatalf("waited %v in vain: %s", Patience, what)
		panic("unreachable")
	}
}

// NoLeaks fails the test when goroutines that it started outlive its clean-up. Call it first. A test that runs in
// parallel with others cannot use it.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("example.com/billing/internal/demo/postgres.(*process).wait"))
	})
}
