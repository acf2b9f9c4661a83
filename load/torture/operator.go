package main

import (
	"context"
	"fmt"
	"net/http"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/failure"
)

// letFloodGo does what an operator does once the world is well and dead letters are withheld: those of records that are no
// orders may go, as many as were sent. What the provider refused is judged anew without anybody's doing.
func (s *stage) letFloodGo(ctx context.Context, events []loadgen.Event) error {
	bad := map[failure.Reason]int{}
	for _, e := range append(events, s.flooded...) {
		if e.Want.Outcome == loadgen.Dead && e.Want.Reason != failure.OrderConflict {
			bad[e.Want.Reason]++
		}
	}
	for reason, n := range bad {
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
		s.times.note("the operator let %d %s go: %s", n, reason, answer)
	}
	return nil
}
