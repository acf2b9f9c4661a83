package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

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
	if !req.DryRun {
		if ends, err = r.beginRun(ctx, req.Run, topic.ID, ends); err != nil {
			return scope{}, err
		}
	}
	ends = within(ends, req.Messages)
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

// within are the ends that matter to the named messages: they wait for no other partition and for nothing behind them.
func within(ends map[int32]int64, places []Place) map[int32]int64 {
	if places == nil {
		return ends
	}
	own := map[int32]int64{}
	for _, p := range places {
		if end, ok := ends[p.Partition]; ok {
			own[p.Partition] = max(own[p.Partition], min(end-1, p.Offset)+1)
		}
	}
	return own
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

// beginRun fixes the ends of a run, or returns those that it began with.
func (r *Replayer) beginRun(ctx context.Context, run, topicID uuid.UUID, ends map[int32]int64) (fixed map[int32]int64, err error) {
	if _, err := r.pool.Exec(ctx, `DELETE FROM replay_runs WHERE created_at < now() - interval '2 days'`); err != nil {
		return nil, fmt.Errorf("remove old replay runs: %w", err)
	}
	if _, err := r.pool.Exec(ctx, `INSERT INTO replay_runs (id, topic_id, ends) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, run, topicID, ends); err != nil {
		return nil, fmt.Errorf("begin replay run %s: %w", run, err)
	}
	err = r.pool.QueryRow(ctx, `SELECT ends FROM replay_runs WHERE id = $1 AND topic_id = $2`, run, topicID).Scan(&fixed)
	if err != nil {
		return nil, fmt.Errorf("read replay run %s: %w", run, err)
	}
	return fixed, nil
}

// replayedBy is how many letters the run has replayed so far: some, if it is taken up again.
func (r *Replayer) replayedBy(ctx context.Context, run uuid.UUID) (n int, err error) {
	err = r.pool.QueryRow(ctx, `SELECT count(*) FROM dead_letters WHERE replay_run = $1 AND state = 'replayed'`, run).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count what replay run %s has done: %w", run, err)
	}
	return n, nil
}
