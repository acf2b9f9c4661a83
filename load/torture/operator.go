package main

import (
	"context"
	"fmt"
	"net/http"

	"example.com/billing/internal/failure"
)

// letFloodGo does what an operator does once the world is well and the line is held by records that are no orders: it looks why,
// and accepts as many of them as were sent.
func (s *stage) letFloodGo(ctx context.Context) error {
	if len(s.flooded) == 0 {
		return nil
	}
	for _, i := range s.crew {
		held, err := i.Metric(ctx, `billing_hold{reason="dead_letter_flood"}`)
		if err != nil {
			return err
		}
		if held == 0 {
			continue
		}
		if err := s.accept(ctx, i); err != nil {
			return err
		}
		s.times.note("%s was told to let the flood go", i.Name)
	}
	return nil
}

func (s *stage) accept(ctx context.Context, i *instance) error {
	status, answer, err := i.Post(ctx, "/admin/consumption/accept", adminToken, map[string]any{
		"reason": "made by the torture", "reason_code": failure.NotJSON, "count": len(s.flooded),
	})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: accept answered %d: %s", i.Name, status, answer)
	}
	return err
}
