package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/reconcile"
)

// reconciled runs the command and reads its report.
func (w *world) reconciled(code int, args ...string) (report reconcile.Report) {
	w.t.Helper()
	requests, _ := w.provider.total()
	c := w.run(nil, append([]string{"reconcile", "-o", "json"}, args...)...)
	require.Equal(w.t, code, c.code, "%s\n%s", c.err, c.out)
	require.NoError(w.t, json.Unmarshal([]byte(c.out), &report))
	after, _ := w.provider.total()
	require.Equal(w.t, requests, after, "a charge was sent")
	w.checkLog(c.out + c.err)
	return report
}

// Two orders end in the dead letters with their outcome unknown: money moved for one of them. The reconciler tells which;
// the other one is replayed, and then both sides are even, until the provider charges one twice.
func TestReconcile(t *testing.T) {
	t.Parallel()
	// Under this policy the two do not pass for an outage, though nobody is charged meanwhile.
	w := newWorld(t, "BILLING_FAULT_POLICY=document", "BILLING_PROVIDER_MAX_PROCESSING=500ms", "BILLING_LEASE=4s", "BILLING_PROVIDER_TIMEOUT=2s")
	i := w.start()
	good, moved, not := w.newOrders(3), w.newOrder(), w.newOrder()
	w.provider.stick(moved, moneyMovesThen(refuses(500, "")))
	w.provider.stick(not, refuses(500, ""))
	w.produce(append(good, moved, not)...)
	for _, o := range []order{moved, not} {
		require.Equal(t, "unknown", header(w.awaitOne(w.dlq, o), "x-error-class"))
		require.Equal(t, "unknown", w.row(o).State)
	}
	i.letters(2)

	w.await(func() bool { w.reconciled(0, "--unknown-only"); return w.row(not).State == "retry_wait" }, "proven absent")
	require.Equal(t, "succeeded", w.row(moved).State)
	require.Equal(t, 1, i.unresolved(), "the other letter is resolved by the charge")
	w.await(func() bool { return len(w.resultsOf(moved)) == 1 }, "the result of a charge that was found")
	w.provider.cure(not)
	require.Equal(t, replayed{Replayed: 1, TargetTopic: w.tiers[0]}, i.replay("", ""))
	w.awaitCharged(not)
	all := append(good, moved, not)
	w.chargedOnce(all...)
	require.EqualValues(t, len(all), w.settled().Charged)

	var report reconcile.Report
	w.await(func() bool { report = w.reconciled(0); return report.Range.There == len(all) }, "all charges have settled")
	require.Equal(t, len(all), report.Range.Here)
	require.Positive(t, report.Range.Sampled)

	w.provider.mu.Lock()
	second := w.provider.charges[good[0].id.String()][0]
	second.ID, second.key = "ch_second", "another"
	w.provider.charges[good[0].id.String()] = append(w.provider.charges[good[0].id.String()], second)
	w.provider.mu.Unlock()
	report = w.reconciled(3, "--range-only")
	require.Len(t, report.Range.Findings.Listed, 1)
	require.Equal(t, reconcile.ChargedTwice, report.Range.Findings.Listed[0].Kind)
	table := w.run(nil, "reconcile")
	require.Equal(t, 3, table.code)
	require.Regexp(t, `charged_twice +`+good[0].id.String()+` +ch_second`, table.out)
	require.Contains(t, table.out, "1 differences")
	require.Equal(t, 2, w.run(nil, "reconcile", "--resume").code, "nothing was interrupted")
	w.provider.down()
	require.Equal(t, 1, w.run(nil, "reconcile").code)
}

// The order is charged and the answer lost; the last attempt finds it too old. The letter does not say that it was only late:
// it is unknown, and the reconciler closes it (hazard H31).
func TestTooOldDoesNotForgetMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "BILLING_MAX_AGE=7s", "BILLING_PROVIDER_MAX_PROCESSING=500ms", "BILLING_LEASE=4s", "BILLING_PROVIDER_TIMEOUT=2s")
	i := w.start()
	o := w.newOrder()
	w.provider.stick(o, moneyMovesThen(refuses(500, "")))
	r := o.record(w.main)
	r.Timestamp = time.Now().Add(-4 * time.Second) // not too old for the first attempt
	w.kafka.Produce(r)
	letter := w.awaitOne(w.dlq, o)
	require.Equal(t, "too_old", header(letter, "x-error-reason"))
	require.Equal(t, "unknown", header(letter, "x-error-class"))
	i.letters(1)
	w.await(func() bool { w.reconciled(0, "--unknown-only"); return w.row(o).State == "succeeded" }, "found at the provider")
	require.Zero(t, i.unresolved())
	w.chargedOnce(o)
}
