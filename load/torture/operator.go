package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

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
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body, err := json.Marshal(map[string]any{"reason": "made by the torture", "reason_code": failure.NotJSON, "count": len(s.flooded)})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+i.Addr()+"/admin/consumption/accept", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // the status says enough
		return fmt.Errorf("%s: accept answered %d: %s", i.Name, res.StatusCode, text)
	}
	return nil
}
