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
	"example.com/billing/internal/failure"
	"example.com/billing/internal/retry"
)

// batchSize is how many letters are taken, published and marked together.
const batchSize = 200

// ReplayerConfig says what may be replayed, and where to.
type ReplayerConfig struct {
	Ladder      retry.Ladder
	Targets     []string              // allowed targets, the default first; none: the first retry topic, then the main topic
	Ceiling     int                   // replays of one message
	Environment string                // part of the idempotency key of an order that is opened again
	MaxAge      time.Duration         // orders older than this are not charged; 0: all are
	Held        func() failure.Reason // why the line stands; empty: it runs
	Lease       time.Duration         // default 1 min: when a replay that stopped half-way may be taken up again
	ListWait    time.Duration         // default 10 s: how long to wait for the working list to catch up
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
	if pool == nil || topics == nil || records == nil || publisher == nil || cfg.Clock == nil || cfg.Held == nil || cfg.Log == nil || cfg.Environment == "" {
		return nil, errors.New("replay: pool, topics, records, publisher, clock, held, log and environment are required")
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
	Topic    string    // the dead-letter topic
	Target   string    // empty: the default
	Messages []Place   // nil: all that is open
	Max      int       // 0: no bound
	DryRun   bool      // count only
	Run      uuid.UUID // the same when a call is taken up again whose process died; zero: a run of its own

	WhileHeld   bool // send although the line is held or paused
	OverCeiling bool // an approver's decisions: send what was replayed too often,
	LiftAge     bool // and have charged what is older than orders may be

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
	SkipInvalid   Skip = "invalid"          // the event is wrong: the same bytes would fail again
	SkipConflict  Skip = "conflict"         // the same order with other content: ask which is right
	SkipCharged   Skip = "charged"          // its order was charged since
	SkipReview    Skip = "in_review"        // the provider contradicts itself about the order: a person decides with its books
	SkipTooOld    Skip = "too_old"          // it would die of its age again, unless an approver lifts it
	SkipGone      Skip = "record_gone"      // no longer in the topic, or another record stands in its place
	SkipNoAck     Skip = "not_acknowledged" // the broker did not confirm; the next replay sends it under the same id
)

// Result is what became of the letters.
type Result struct {
	Target   string
	Replayed int // by the run as a whole; in a dry run: would be replayed
	Skipped  map[Skip]int
	Held     failure.Reason // of a dry run: why nothing would be sent now; empty: it would
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
	if req.Run == uuid.Nil {
		req.Run = uuid.New()
	}
	err := r.mayBegin(ctx, req, &res)
	if err != nil {
		return res, err
	}
	scope, err := r.fixScope(ctx, req)
	if err != nil {
		return res, err
	}
	if req.DryRun {
		return res, r.replayAll(ctx, req, scope, &res)
	}
	if res.Replayed, err = r.replayedBy(ctx, req.Run); err != nil {
		return res, err
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
		Decided  []string     `json:"decided,omitempty"`
		Replayed int          `json:"replayed"`
		Skipped  map[Skip]int `json:"skipped,omitempty"`
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return audit.WriteTo(ctx, r.pool, audit.Entry{
		Actor: req.Actor, Action: "dlq.replay", Reason: req.Reason, RequestID: req.RequestID, Outcome: outcome,
		Target: target{req.Topic, res.Target, req.Messages, req.Max, req.decided(), res.Replayed, res.Skipped},
	})
}

// decided names what the caller has allowed beyond the usual.
func (req Request) decided() (all []string) {
	for name, yes := range map[string]bool{"while_held": req.WhileHeld, "over_ceiling": req.OverCeiling, "lift_age": req.LiftAge} {
		if yes {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// mayBegin refuses a replay while the line is held, unless the caller wants it all the same. A dry run only tells.
func (r *Replayer) mayBegin(ctx context.Context, req Request, res *Result) error {
	why, err := r.held(ctx)
	switch {
	case err != nil || why == "" || req.WhileHeld:
		return err
	case req.DryRun:
		res.Held = why
		return nil
	}
	return &HeldError{why}
}

// held says why nothing should be sent. The operator's switch is asked for where it stands: this instance may not have heard
// of it yet.
func (r *Replayer) held(ctx context.Context) (failure.Reason, error) {
	if why := r.cfg.Held(); why != "" {
		return why, nil
	}
	var paused bool
	if err := r.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM operator_pause)`).Scan(&paused); err != nil {
		return "", fmt.Errorf("read the operator's switch: %w", err)
	}
	if paused {
		return failure.OperatorPause, nil
	}
	return "", nil
}
