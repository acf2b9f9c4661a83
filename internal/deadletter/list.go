package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/proof"
)

// List reads the working list.
type List struct{ pool *pgxpool.Pool }

// NewList makes a List on the pool.
func NewList(pool *pgxpool.Pool) *List { return &List{pool: pool} }

// Filter picks letters of one topic. Zero fields do not filter.
type Filter struct {
	State    State
	Reason   failure.Reason
	Class    failure.Class
	OrderID  uuid.UUID
	From, To time.Time // of the death
	Before   int64     // letters with a lower id: the next page
	Limit    int
}

// columns in the order that scanLetter reads.
const columns = `id, partition, "offset", topic, CASE WHEN duplicate_of IS NULL THEN state ELSE 'duplicate' END, class, reason, error, failures, order_id, amount_minor, currency, origin_topic,
	origin_partition, origin_offset, origin_at, first_failure_at, dead_at, replay_count, replay_id, replay_target, finished_at, duplicate_of`

func scanLetter(row pgx.CollectableRow) (l Letter, err error) {
	err = row.Scan(&l.ID, &l.Partition, &l.Offset, &l.Topic, &l.State, &l.Class, &l.Reason, &l.Error, &l.Failures, &l.OrderID, &l.AmountMinor, &l.Currency, &l.OriginTopic,
		&l.OriginPart, &l.OriginOffset, &l.OriginAt, &l.FirstFailure, &l.DeadAt, &l.ReplayCount, &l.ReplayID, &l.ReplayTarget, &l.FinishedAt, &l.DuplicateOf)
	return l, err
}

// Find returns letters of the topic, the last listed first.
func (s *List) Find(ctx context.Context, topic string, f Filter) ([]Letter, error) {
	where, args := f.where(topic)
	args = append(args, f.Limit)
	return s.query(ctx, fmt.Sprintf("SELECT %s FROM dead_letters WHERE %s ORDER BY id DESC LIMIT $%d", columns, where, len(args)), args...)
}

// where builds the condition from the fields that are set, so that the planner sees only those.
func (f Filter) where(topic string) (string, []any) {
	where, args := "topic = $1", []any{topic}
	add := func(set bool, condition string, value any) {
		if set {
			args = append(args, value)
			where += fmt.Sprintf(" AND "+condition, len(args))
		}
	}
	add(f.State != "" && f.State != Duplicate, "state = $%d AND duplicate_of IS NULL", string(f.State))
	if f.State == Duplicate {
		where += " AND duplicate_of IS NOT NULL"
	}
	add(f.Reason != "", "reason = $%d", string(f.Reason))
	add(f.Class != "", "class = $%d", string(f.Class))
	add(f.OrderID != uuid.Nil, "order_id = $%d", f.OrderID)
	add(!f.From.IsZero(), "dead_at >= $%d", f.From)
	add(!f.To.IsZero(), "dead_at < $%d", f.To)
	add(f.Before != 0, "id < $%d", f.Before)
	return where, args
}

// At returns one letter. Of a topic that was created again it is the one of the last incarnation.
func (s *List) At(ctx context.Context, topic string, p Place) (Letter, error) {
	letters, err := s.query(ctx, `SELECT `+columns+` FROM dead_letters WHERE topic = $1 AND partition = $2 AND "offset" = $3 ORDER BY id DESC LIMIT 1`, topic, p.Partition, p.Offset)
	if err == nil && len(letters) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Letter{}, fmt.Errorf("dead letter %s/%d/%d: %w", topic, p.Partition, p.Offset, err)
	}
	return letters[0], nil
}

// OfOrder returns the letters of an order, oldest first.
func (s *List) OfOrder(ctx context.Context, order uuid.UUID) ([]Letter, error) {
	return s.query(ctx, `SELECT `+columns+` FROM dead_letters WHERE order_id = $1 ORDER BY id LIMIT 1000`, order)
}

// Replayed is what is known of a replay; nil when no letter was replayed under the id. mainID is the main topic's as it is
// now: an origin in an earlier incarnation names no record any more (hazard H11).
func (s *List) Replayed(ctx context.Context, id, mainID uuid.UUID) (*proof.Replay, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT CASE WHEN origin_topic_id IS NULL OR origin_topic_id = $2 THEN coalesce(origin_topic, '') ELSE '' END,
		       coalesce(origin_partition, 0), coalesce(origin_offset, 0), body_hash, replay_count + 1, state IN ('dropped', 'resolved'), age_lifted
		FROM dead_letters WHERE replay_id = $1`, id, mainID)
	if err != nil {
		return nil, fmt.Errorf("look for replay %s: %w", id, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByPos[proof.Replay])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // as the interface says
	}
	if err != nil {
		return nil, fmt.Errorf("look for replay %s: %w", id, err)
	}
	return r, nil
}

// Died reports whether the record of the main topic is listed as dead, and not replayed since. Another body with forged
// headers is another record (hazard H17).
func (s *List) Died(ctx context.Context, origin billing.Origin, replay uuid.UUID, body []byte) (listed bool, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM dead_letters WHERE origin_topic_id = $1 AND origin_partition = $2 AND origin_offset = $3
			AND from_replay_id = $4 AND body_hash = $5 AND duplicate_of IS NULL)`,
		origin.TopicID, origin.Partition, origin.Offset, replay, body).Scan(&listed)
	if err != nil {
		return false, fmt.Errorf("look for the dead letter of %s/%d/%d: %w", origin.TopicID, origin.Partition, origin.Offset, err)
	}
	return listed, nil
}

func (s *List) query(ctx context.Context, sql string, args ...any) ([]Letter, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	letters, err := pgx.CollectRows(rows, scanLetter)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	return letters, nil
}

// Stats are the figures of one topic. Duplicates are not counted.
type Stats struct {
	Unresolved map[failure.Reason]int64
	Amount     map[string]int64 // money at risk in minor units, by currency: of each order once, and of none that is charged
	Oldest     time.Duration    // age of the oldest unresolved letter; 0 when there is none
}

// Stats counts what is unresolved.
func (s *List) Stats(ctx context.Context, topic string) (Stats, error) {
	st := Stats{Unresolved: map[failure.Reason]int64{}, Amount: map[string]int64{}}
	rows, err := s.pool.Query(ctx, `
		SELECT reason, coalesce(at_risk, ''), count(*), coalesce(sum(amount_minor) FILTER (WHERE at_risk IS NOT NULL), 0)::bigint,
		       greatest(extract(epoch FROM now() - min(dead_at)), 0)::float8
		FROM (
			SELECT d.reason, d.amount_minor, d.dead_at, CASE WHEN c.state IS DISTINCT FROM 'succeeded'
				AND row_number() OVER (PARTITION BY d.order_id, d.currency ORDER BY d.amount_minor DESC, d.id) = 1 THEN d.currency END AS at_risk
			FROM dead_letters d LEFT JOIN charges c ON c.order_id = d.order_id
			WHERE d.topic = $1 AND d.state IN ('open', 'replaying') AND d.duplicate_of IS NULL) AS unresolved
		GROUP BY reason, at_risk`, topic)
	if err != nil {
		return st, fmt.Errorf("count dead letters: %w", err)
	}
	var reason, currency string
	var count, amount int64
	var age float64
	_, err = pgx.ForEachRow(rows, []any{&reason, &currency, &count, &amount, &age}, func() error {
		st.Unresolved[failure.Reason(reason)] += count
		if currency != "" {
			st.Amount[currency] += amount
		}
		st.Oldest = max(st.Oldest, time.Duration(age*float64(time.Second)))
		return nil
	})
	if err != nil {
		err = fmt.Errorf("count dead letters: %w", err)
	}
	return st, err
}
