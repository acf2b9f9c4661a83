package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/audit"
	"example.com/billing/internal/retry"
)

// batchSize is how many letters are taken, published and marked together.
const batchSize = 200

// ReplayerConfig says what may be replayed, and where to.
type ReplayerConfig struct {
	Ladder      retry.Ladder
	Targets     []string      // allowed targets, the default first; none: the first retry topic, then the main topic
	Ceiling     int           // replays of one message
	Environment string        // part of the idempotency key of an order that is opened again
	Lease       time.Duration // default 1 min: when a replay that stopped half-way may be taken up again
	ListWait    time.Duration // default 10 s: how long to wait for the working list to catch up
	Clock       func() time.Time
	Log         *slog.Logger
}

// Replayer sends dead letters back. It acts only when a person asks for it: no timer calls it.
type Replayer struct {
	cfg       ReplayerConfig
	pool      *pgxpool.Pool
	topics    Topics
	records   *Records
	publisher Publisher
}

// NewReplayer checks the settings.
func NewReplayer(cfg ReplayerConfig, pool *pgxpool.Pool, topics Topics, records *Records, publisher Publisher) (*Replayer, error) {
	if pool == nil || topics == nil || records == nil || publisher == nil || cfg.Clock == nil || cfg.Log == nil || cfg.Environment == "" {
		return nil, errors.New("replay: pool, topics, records, publisher, clock, log and environment are required")
	}
	if cfg.Ceiling < 1 || len(cfg.Ladder.Tiers()) == 0 {
		return nil, errors.New("replay: a ceiling of at least 1 and a ladder with tiers are required")
	}
	if len(cfg.Targets) == 0 {
		cfg.Targets = []string{cfg.Ladder.Tiers()[0].Topic, cfg.Ladder.Main()}
	}
	for _, t := range cfg.Targets {
		if t == cfg.Ladder.DeadLetters() || !slices.Contains(cfg.Ladder.Topics(), t) {
			return nil, fmt.Errorf("replay: target %q is not the main topic or one of its retry topics", t)
		}
	}
	if cfg.Lease == 0 {
		cfg.Lease = time.Minute
	}
	if cfg.ListWait == 0 {
		cfg.ListWait = 10 * time.Second
	}
	return &Replayer{cfg: cfg, pool: pool, topics: topics, records: records, publisher: publisher}, nil
}

// Request is what a person asks for.
type Request struct {
	Topic     string  // the dead-letter topic
	Target    string  // empty: the default
	Messages  []Place // nil: all that is open
	Max       int     // 0: no bound
	DryRun    bool    // count only
	Actor     audit.Actor
	Reason    string
	RequestID string
}

// Skip says why a letter was not replayed.
type Skip string

// The reasons for a skip.
const (
	SkipNotFound  Skip = "not_found"        // not on the working list, below the end fixed at the start
	SkipFinished  Skip = "already_finished" // replayed, dropped or resolved before
	SkipBusy      Skip = "in_progress"      // another replay holds it
	SkipDuplicate Skip = "duplicate"        // the record was published twice; the first one counts
	SkipDeclined  Skip = "declined"         // the customer's bank refused: to charge again is another decision (hazard H4)
	SkipCeiling   Skip = "replay_ceiling"   // replayed too often
	SkipGone      Skip = "record_gone"      // no longer in the topic, or another record stands in its place
	SkipNoAck     Skip = "not_acknowledged" // the broker did not confirm; the next replay sends it under the same id
)

// Result is what became of the letters.
type Result struct {
	Target   string
	Replayed int // in a dry run: would be replayed
	Skipped  map[Skip]int
}

// Replay sends the letters that stood in the topic when it was called. Beside an error the result tells what was done
// before; what was taken and not finished is taken up by the next replay once its lease has run out.
func (r *Replayer) Replay(ctx context.Context, req Request) (Result, error) {
	res := Result{Target: req.Target, Skipped: map[Skip]int{}}
	if res.Target == "" {
		res.Target = r.cfg.Targets[0]
	}
	switch {
	case req.Topic != r.cfg.Ladder.DeadLetters():
		return res, &TopicError{Topic: req.Topic, Want: r.cfg.Ladder.DeadLetters()}
	case !slices.Contains(r.cfg.Targets, res.Target):
		return res, &TargetError{Target: res.Target, Allowed: r.cfg.Targets}
	case req.Reason == "" || req.Actor.Name == "":
		return res, errors.New("replay: a reason and an actor are required")
	}
	scope, err := r.fixScope(ctx, req)
	if err != nil {
		return res, err
	}
	if req.DryRun {
		return res, r.replayAll(ctx, req, scope, &res)
	}
	if err := r.audit(ctx, req, res, "started"); err != nil {
		return res, err
	}
	err = r.replayAll(ctx, req, scope, &res)
	outcome := "done"
	if err != nil {
		outcome = "stopped"
	}
	r.cfg.Log.Info("replay "+outcome, "topic", req.Topic, "to", res.Target, "actor", req.Actor.Name, "request_id", req.RequestID,
		"replayed", res.Replayed, "skipped", res.Skipped)
	return res, errors.Join(err, r.audit(context.WithoutCancel(ctx), req, res, outcome))
}

func (r *Replayer) audit(ctx context.Context, req Request, res Result, outcome string) error {
	type target struct {
		Topic    string       `json:"topic"`
		Target   string       `json:"target_topic"`
		Messages []Place      `json:"messages,omitempty"`
		Max      int          `json:"max,omitempty"`
		Replayed int          `json:"replayed"`
		Skipped  map[Skip]int `json:"skipped,omitempty"`
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return audit.WriteTo(ctx, r.pool, audit.Entry{
		Actor: req.Actor, Action: "dlq.replay", Reason: req.Reason, RequestID: req.RequestID, Outcome: outcome,
		Target: target{req.Topic, res.Target, req.Messages, req.Max, res.Replayed, res.Skipped},
	})
}

// scope is the part of the topic that a replay concerns: what dies later is left to the next one.
type scope struct {
	topicID uuid.UUID
	ends    map[int32]int64
	places  []Place // nil: all
}

// fixScope fixes the end offsets and waits until everything below them is listed.
func (r *Replayer) fixScope(ctx context.Context, req Request) (scope, error) {
	topic, err := describe(ctx, r.topics, req.Topic)
	if err != nil {
		return scope{}, err
	}
	ends, err := r.topics.Ends(ctx, req.Topic)
	if err != nil {
		return scope{}, fmt.Errorf("end offsets of %s: %w", req.Topic, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.ListWait, ErrBehind)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		listed, err := positions(ctx, r.pool, topic.ID)
		if err == nil && covers(listed, ends) {
			return scope{topic.ID, ends, distinct(req.Messages)}, nil
		}
		if err != nil && ctx.Err() == nil {
			return scope{}, err
		}
		select {
		case <-ctx.Done():
			return scope{}, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// covers reports whether every partition is listed up to its end.
func covers(listed, ends map[int32]int64) bool {
	for p, end := range ends {
		if next, ok := listed[p]; !ok || next < end {
			return false
		}
	}
	return true
}

func distinct(places []Place) []Place {
	if places == nil {
		return nil
	}
	seen := map[Place]bool{}
	once := []Place{}
	for _, p := range places {
		if !seen[p] {
			seen[p] = true
			once = append(once, p)
		}
	}
	return once
}
