package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"example.com/billing/internal/deadletter"
)

// maxNamed is how many messages one call may name.
const maxNamed = 10000

type replayBody struct {
	Reason   string `json:"reason"`
	Messages named  `json:"messages"`
	Max      *int   `json:"max"`
}

// named are messages named one by one. Nothing may be left out or null: what a script forgot must neither become message 0
// of partition 0 nor all that is open.
type named []deadletter.Place

func (n *named) UnmarshalJSON(text []byte) error {
	var places []struct {
		Partition *int32 `json:"partition"`
		Offset    *int64 `json:"offset"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&places); err != nil {
		return err
	}
	*n = named{}
	for _, p := range places {
		if p.Partition == nil || p.Offset == nil {
			return errors.New("each message needs a partition and an offset")
		}
		*n = append(*n, deadletter.Place{Partition: *p.Partition, Offset: *p.Offset})
	}
	return nil
}

type replayAnswer struct {
	Replayed       int                     `json:"replayed"`
	Skipped        int                     `json:"skipped"`
	SkippedReasons map[deadletter.Skip]int `json:"skipped_reasons"`
	TargetTopic    string                  `json:"target_topic"`
	DryRun         bool                    `json:"dry_run"`
}

// replay answers POST /admin/dlq/{dlq_topic}/replay. Without a body it replays all that is open.
func (s *Server) replay(c echo.Context, by Token) (any, error) {
	if err := s.knownTopic(c); err != nil {
		return nil, err
	}
	p := params{c: c}
	req := deadletter.Request{
		Topic: s.cfg.DeadLetters, Target: c.QueryParam("target_topic"), DryRun: p.flag("dry_run"),
		Actor: by.actor(), RequestID: requestID(c),
	}
	if p.err != nil {
		return nil, p.err
	}
	if err := readReplay(c.Request().Body, &req); err != nil {
		return nil, err
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
	for _, n := range res.Skipped {
		a.Skipped += n
	}
	return a, nil
}

// readReplay reads the body. Without one the replay is of all that is open.
func readReplay(r io.Reader, req *deadletter.Request) error {
	var body replayBody
	given, err := readBody(r, &body, `{"reason", "messages": [{"partition", "offset"}], "max"}`)
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
		return refuse(http.StatusUnprocessableEntity, "messages: the list is empty or null; leave it out to replay all that is open")
	case len(body.Messages) > maxNamed:
		return refuse(http.StatusUnprocessableEntity, "messages: want at most %d", maxNamed)
	case body.Max != nil && *body.Max < 1:
		return refuse(http.StatusUnprocessableEntity, "max: want at least 1")
	}
	req.Reason, req.Messages = body.Reason, body.Messages
	if body.Max != nil {
		req.Max = *body.Max
	}
	return nil
}
