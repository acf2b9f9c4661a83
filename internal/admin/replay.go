package admin

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
)

// maxNamed is how many messages one call may name.
const maxNamed = 10000

// replayBody is what a replay may say. Of a message nothing may be left out: what a script forgot must not become message 0
// of partition 0.
type replayBody struct {
	Reason   string `json:"reason"`
	Messages []struct {
		Partition *int32 `json:"partition"`
		Offset    *int64 `json:"offset"`
	} `json:"messages"`
	Max         *int `json:"max"`
	WhileHeld   bool `json:"while_held"`
	OverCeiling bool `json:"over_ceiling"`
	LiftAge     bool `json:"lift_age"`
}

const replayWant = `{"reason", "messages": [{"partition", "offset"}], "max", "while_held", "over_ceiling", "lift_age"}`

type replayAnswer struct {
	Replayed       int                     `json:"replayed"`
	Skipped        int                     `json:"skipped"`
	SkippedReasons map[deadletter.Skip]int `json:"skipped_reasons"`
	TargetTopic    string                  `json:"target_topic"`
	DryRun         bool                    `json:"dry_run"`
	Held           *failure.Reason         `json:"held,omitempty"` // a dry run only: why a real one would be refused
}

// replay answers POST /admin/dlq/{dlq_topic}/replay. Without a body it replays all that is open.
func (s *Server) replay(c echo.Context, by Token) (any, error) {
	if err := s.knownTopic(c); err != nil {
		return nil, err
	}
	req := deadletter.Request{
		Topic: s.cfg.DeadLetters, Target: valueOf[string](c, targetParam), DryRun: valueOf[bool](c, dryRunParam),
		Actor: by.actor(), RequestID: requestID(c), Run: callID(c),
	}
	if err := readReplay(c.Request().Body, &req); err != nil {
		return nil, err
	}
	if by.Role < Approver && (req.OverCeiling || req.LiftAge) {
		return nil, refuse(http.StatusForbidden, "%s is a %s; over_ceiling and lift_age need the role %s", by.Name, by.Role, Approver)
	}
	// The answer comes when all is acknowledged, later than the server's own write timeout would have it.
	deadline := time.Now().Add(s.cfg.ReplayTimeout)
	if err := http.NewResponseController(c.Response()).SetWriteDeadline(deadline.Add(10 * time.Second)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(c.Request().Context(), deadline)
	defer cancel()
	res, err := s.deps.Replayer.Replay(ctx, req)
	if err != nil && res.Replayed > 0 {
		p := refuse(http.StatusServiceUnavailable, "stopped after %d messages were replayed; the same call again goes on with the rest", res.Replayed)
		p.cause = err
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	a := replayAnswer{Replayed: res.Replayed, SkippedReasons: res.Skipped, TargetTopic: res.Target, DryRun: req.DryRun}
	if res.Held != "" {
		a.Held = &res.Held
	}
	for _, n := range res.Skipped {
		a.Skipped += n
	}
	return a, nil
}

// readReplay reads the body. Without one the replay is of all that is open.
func readReplay(r io.Reader, req *deadletter.Request) error {
	var body replayBody
	given, err := readBody(r, &body, replayWant)
	if err != nil {
		return err
	}
	if !given {
		req.Reason = "not given"
		return nil
	}
	if err := checkReason(body.Reason); err != nil {
		return err
	}
	switch {
	case body.Messages != nil && len(body.Messages) == 0:
		return refuse(http.StatusUnprocessableEntity, "messages: the list is empty; leave it out to replay all that is open")
	case len(body.Messages) > maxNamed:
		return refuse(http.StatusUnprocessableEntity, "messages: want at most %d", maxNamed)
	case body.Max != nil && *body.Max < 1:
		return refuse(http.StatusUnprocessableEntity, "max: want at least 1")
	}
	req.Reason, req.WhileHeld, req.OverCeiling, req.LiftAge = body.Reason, body.WhileHeld, body.OverCeiling, body.LiftAge
	for i, m := range body.Messages {
		if m.Partition == nil || m.Offset == nil || *m.Partition < 0 || *m.Offset < 0 {
			return refuse(http.StatusBadRequest, "messages.%d: want a partition and an offset, both from 0", i)
		}
		req.Messages = append(req.Messages, deadletter.Place{Partition: *m.Partition, Offset: *m.Offset})
	}
	if body.Max != nil {
		req.Max = *body.Max
	}
	return nil
}
