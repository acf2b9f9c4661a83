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
	found, after, taken := 0, int64(0), 0
	for req.Max == 0 || taken < req.Max {
		page, err := r.candidates(ctx, s, after)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			res.add(SkipNotFound, len(s.places)-found)
			return nil
		}
		var ids []int64
		for _, c := range page {
			if req.Max > 0 && taken == req.Max {
				break
			}
			found, after = found+1, c.id
			if why := r.skip(c); why != "" {
				res.add(why, 1)
				continue
			}
			ids = append(ids, c.id)
			taken++
		}
		if req.DryRun {
			res.Replayed += len(ids)
		} else if err := r.replayBatch(ctx, ids, res); err != nil {
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

// candidate is what the decision about one letter needs.
type candidate struct {
	id          int64
	state       State
	class       failure.Class
	replays     int
	duplicate   bool
	expired     bool   // its replaying lease has run out
	chargeState string // of its order; empty: no row
}

// candidates are the next letters of the scope.
func (r *Replayer) candidates(ctx context.Context, s scope, after int64) ([]candidate, error) {
	which := `d.state IN ('open', 'replaying')`
	endParts, endOffsets := columnsOf(s.ends)
	args := []any{s.topicID, after, batchSize, endParts, endOffsets}
	if s.places != nil {
		which = `(d.partition, d."offset") IN (SELECT * FROM unnest($6::integer[], $7::bigint[]))`
		var parts []int32
		var offsets []int64
		for _, p := range s.places {
			parts, offsets = append(parts, p.Partition), append(offsets, p.Offset)
		}
		args = append(args, parts, offsets)
	}
	rows, err := r.pool.Query(ctx, `
		SELECT d.id, d.state, d.class, d.replay_count, d.duplicate_of IS NOT NULL, coalesce(d.lease_until < now(), false), coalesce(c.state, '')
		FROM dead_letters d
		JOIN unnest($4::integer[], $5::bigint[]) AS fixed (partition, stop) ON fixed.partition = d.partition AND d."offset" < fixed.stop
		LEFT JOIN charges c ON c.order_id = d.order_id
		WHERE d.topic_id = $1 AND d.id > $2 AND `+which+` ORDER BY d.id LIMIT $3`, args...)
	if err != nil {
		return nil, fmt.Errorf("find letters to replay: %w", err)
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c candidate, err error) {
		err = row.Scan(&c.id, &c.state, &c.class, &c.replays, &c.duplicate, &c.expired, &c.chargeState)
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

// skip says why the letter must not be replayed; empty: it may.
func (r *Replayer) skip(c candidate) Skip {
	switch {
	case c.state != Open && c.state != Replaying:
		return SkipFinished
	case c.duplicate:
		return SkipDuplicate
	case c.state == Replaying && !c.expired:
		return SkipBusy
	case c.class == failure.ClassDeclined || c.chargeState == "declined":
		return SkipDeclined
	case c.replays >= r.cfg.Ceiling:
		return SkipCeiling
	}
	return ""
}

// replayBatch takes the letters, publishes their records and marks what was acknowledged. The order of the three is the
// promise: a crash in between leaves letters that are taken up again under the same replay id.
func (r *Replayer) replayBatch(ctx context.Context, ids []int64, res *Result) error {
	if len(ids) == 0 {
		return nil
	}
	// What follows must end before the lease does, or another replay would publish beside it.
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Lease/2)
	defer cancel()
	taken, err := r.take(ctx, ids, res.Target)
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
