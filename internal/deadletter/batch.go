package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/crash"
	"example.com/billing/internal/platform/kafkaclient"
)

// replayAll goes through the scope in the order of listing.
func (r *Replayer) replayAll(ctx context.Context, req Request, s scope, res *Result) error {
	found, after, taken := 0, int64(0), res.Replayed
	for req.Max == 0 || taken < req.Max {
		page, err := r.candidates(ctx, req, s, after)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			res.add(SkipNotFound, len(s.places)-found)
			return nil
		}
		var send, ended []int64
		for _, c := range page {
			if req.Max > 0 && taken == req.Max {
				break
			}
			found, after = found+1, c.id
			if c.own && c.state == Replayed {
				continue // counted when the run was taken up
			}
			if why := r.skip(c, req); why != "" {
				res.add(why, 1)
				continue
			}
			if taken++; c.ended {
				ended = append(ended, c.id)
			} else {
				send = append(send, c.id)
			}
		}
		if req.DryRun {
			res.Replayed += len(send) + len(ended)
		} else if err := r.replayPage(ctx, req, send, ended, res); err != nil {
			return err
		}
	}
	return nil
}

func (res *Result) add(why Skip, n int) {
	if n > 0 {
		res.Skipped[why] += n
	}
}

// replayPage writes down what has ended, and sends the rest unless the line is held meanwhile.
func (r *Replayer) replayPage(ctx context.Context, req Request, send, ended []int64, res *Result) error {
	if len(ended) > 0 {
		if err := r.finish(ctx, ended, nil, nil); err != nil {
			return err
		}
		res.Replayed += len(ended)
	}
	if len(send) == 0 {
		return nil
	}
	if err := r.mayBegin(ctx, req, res); err != nil {
		return err
	}
	return r.replayBatch(ctx, req, send, res)
}

// candidate is what the decision about one letter needs.
type candidate struct {
	id          int64
	state       State
	class       failure.Class
	reason      failure.Reason
	replays     int
	duplicate   bool
	originAt    *time.Time
	own         bool   // this very run took it, before its process died
	expired     bool   // its replaying lease has run out, or is our own
	ended       bool   // its replay was sent and its record is charged; only nobody wrote it down
	chargeState string // of its order; empty: no row
}

// candidates are the next letters of the scope.
func (r *Replayer) candidates(ctx context.Context, req Request, s scope, after int64) ([]candidate, error) {
	which := `d.state IN ('open', 'replaying') AND d.duplicate_of IS NULL`
	endParts, endOffsets := columnsOf(s.ends)
	args := []any{s.topicID, after, batchSize, endParts, endOffsets, req.Run}
	if s.places != nil {
		which = `(d.partition, d."offset") IN (SELECT * FROM unnest($7::integer[], $8::bigint[]))`
		var parts []int32
		var offsets []int64
		for _, p := range s.places {
			parts, offsets = append(parts, p.Partition), append(offsets, p.Offset)
		}
		args = append(args, parts, offsets)
	}
	rows, err := r.pool.Query(ctx, `
		SELECT d.id, d.state, d.class, d.reason, d.replay_count, d.duplicate_of IS NOT NULL, d.origin_at,
			d.replay_run IS NOT DISTINCT FROM $6, coalesce(d.lease_until < now() OR d.replay_run = $6, false),
			d.state = 'replaying' AND coalesce(c.state = 'succeeded'
				AND (c.origin_topic_id, c.origin_partition, c.origin_offset) = (d.origin_topic_id, d.origin_partition, d.origin_offset), false),
			coalesce(c.state, '')
		FROM dead_letters d
		JOIN unnest($4::integer[], $5::bigint[]) AS fixed (partition, stop) ON fixed.partition = d.partition AND d."offset" < fixed.stop
		LEFT JOIN charges c ON c.order_id = d.order_id
		WHERE d.topic_id = $1 AND d.id > $2 AND `+which+` ORDER BY d.id LIMIT $3`, args...)
	if err != nil {
		return nil, fmt.Errorf("find letters to replay: %w", err)
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c candidate, err error) {
		err = row.Scan(&c.id, &c.state, &c.class, &c.reason, &c.replays, &c.duplicate, &c.originAt, &c.own, &c.expired, &c.ended, &c.chargeState)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("find letters to replay: %w", err)
	}
	return page, nil
}

func columnsOf(m map[int32]int64) (keys []int32, values []int64) {
	for k, v := range m {
		keys, values = append(keys, k), append(values, v)
	}
	return keys, values
}

// skip says why the letter must not be replayed; empty: it may. A replay that stopped half-way may have sent its record: it
// is always taken up again, under the same id, so that it ends whatever became of the order meanwhile.
func (r *Replayer) skip(c candidate, req Request) Skip {
	switch {
	case c.duplicate:
		return SkipDuplicate
	case c.state == Replaying && !c.expired:
		return SkipBusy
	case c.state == Replaying:
		return ""
	case c.state != Open:
		return SkipFinished
	case c.class == failure.ClassInvalid:
		return SkipInvalid
	case c.class == failure.ClassConflict:
		return SkipConflict
	case c.class == failure.ClassDeclined || c.chargeState == "declined":
		return SkipDeclined
	case c.chargeState == "succeeded":
		return SkipCharged
	case c.chargeState == "review":
		return SkipReview
	case r.tooOld(c) && !req.LiftAge:
		return SkipTooOld
	case c.replays >= r.cfg.Ceiling && !req.OverCeiling:
		return SkipCeiling
	}
	return ""
}

// tooOld reports whether the message would die of its age again: the consumer counts from its origin, which a replay keeps.
func (r *Replayer) tooOld(c candidate) bool {
	if r.cfg.MaxAge == 0 {
		return false
	}
	if c.originAt == nil {
		return c.reason == failure.TooOld
	}
	return r.cfg.Clock().Sub(*c.originAt) > r.cfg.MaxAge
}

// replayBatch takes the letters, publishes their records and marks what was acknowledged. The order of the three is the
// promise: a crash in between leaves letters that are taken up again under the same replay id.
func (r *Replayer) replayBatch(ctx context.Context, req Request, ids []int64, res *Result) error {
	// What follows must end before the lease does, or another replay would publish beside it.
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Lease/2)
	defer cancel()
	taken, err := r.take(ctx, req, ids, res.Target)
	if err != nil {
		return err
	}
	crash.At(crash.ReplayTaken)
	res.add(SkipBusy, len(ids)-len(taken))
	records, sent, gone, err := r.prepare(ctx, taken, res.Target)
	if err != nil {
		return errors.Join(err, r.finish(ctx, nil, idsOf(taken), nil))
	}
	var acked, unsure []int64
	for i, err := range r.publisher.PublishAll(ctx, records) {
		if err != nil {
			unsure = append(unsure, sent[i])
			r.cfg.Log.Warn("replayed letter not acknowledged", "letter", sent[i], "to", res.Target, "error", err)
			continue
		}
		acked = append(acked, sent[i])
	}
	crash.At(crash.ReplayPublished)
	if err := r.finish(ctx, acked, unsure, gone); err != nil {
		return err
	}
	crash.At(crash.ReplayMarked)
	res.Replayed += len(acked)
	res.add(SkipNoAck, len(unsure))
	res.add(SkipGone, len(gone))
	return nil
}

// prepare reads the records of the taken letters and makes those to publish. A record that is not the one that was listed
// is as good as gone (hazard H12).
func (r *Replayer) prepare(ctx context.Context, taken []takenLetter, target string) (records []kafkaclient.Record, sent, gone []int64, err error) {
	places := make([]Place, len(taken))
	for i, t := range taken {
		places[i] = t.place
	}
	found, err := r.records.At(ctx, r.cfg.Ladder.DeadLetters(), places)
	if err != nil {
		return nil, nil, nil, err
	}
	var due time.Time
	if target != r.cfg.Ladder.Main() {
		due = r.cfg.Clock()
	}
	for _, t := range taken {
		d, ok := found[t.place]
		if !ok || !t.matches(d) {
			gone = append(gone, t.id)
			continue
		}
		records, sent = append(records, d.Replay(target, t.replayID, due)), append(sent, t.id)
	}
	return records, sent, gone, nil
}
