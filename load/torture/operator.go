package main

import (
	"context"
	"fmt"
	"net/http"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/failure"
)

// letFloodGo does what an operator does once the world is well and dead letters are withheld: what no cure changes may go, as
// many as there are. What the provider refused as wrong is judged anew without anybody's doing.
func (s *stage) letFloodGo(ctx context.Context, events []loadgen.Event) error {
	for reason, n := range s.hopeless(events) {
		if s.letGo[reason] {
			continue
		}
		status, answer, err := s.crew[0].Post(ctx, "/admin/consumption/accept", adminToken, map[string]any{
			"reason": "made by the torture", "reason_code": reason, "count": n,
		})
		switch {
		case err != nil:
			return err
		case status == http.StatusConflict: // no dead letters are withheld
			return nil
		case status != http.StatusOK:
			return fmt.Errorf("accept answered %d: %s", status, answer)
		}
		s.letGo[reason] = true
		s.times.note("the operator let %d %s go: %s", n, reason, answer)
	}
	return nil
}

// hopeless counts what stays dead: records that are no orders, conflicts, and what was declined.
func (s *stage) hopeless(events []loadgen.Event) map[failure.Reason]int {
	n := map[failure.Reason]int{}
	for _, e := range append(events, s.flooded...) {
		if e.Want.Outcome == loadgen.Dead {
			n[e.Want.Reason]++
		}
	}
	declined := map[string]bool{}
	for _, r := range s.provider.Requests() {
		if r.Status == http.StatusPaymentRequired {
			declined[r.Order] = true
		}
	}
	for _, e := range events {
		if declined[e.OrderID.String()] {
			n[failure.Declined]++
		}
	}
	return n
}
