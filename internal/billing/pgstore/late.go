package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
)

// attemptLate is the kind of an attempt whose claim had lost the row when it ended.
const attemptLate = "late"

// settleLate ends a claim that no longer holds its row: its lease ended and another took the order over, or this very
// settlement was committed before and only the answer was lost.
//
// A failure has lost its say: the claim that took over decides (H17). A success is a fact about money, whoever holds the
// row: it is stored over every state but succeeded.
func (s *Store) settleLate(r settleRequest) (held bool, err error) {
	var found lateRow
	err = s.patiently(context.Background(), "settle late", briefly(true, func(ctx context.Context, db session) error {
		if found, err = lockRow(ctx, db, r); err != nil || found.settledAs != "" {
			return err
		}
		return db.SendBatch(ctx, lateWrites(r, found)).Close()
	}))
	switch {
	case err != nil:
		return false, err
	case found.settledAs != "":
		return found.settledAs != attemptLate, nil
	}
	s.logLate(r, found)
	return false, nil
}

// lateRow is the row as the late path finds it; the zero one means that there is none.
type lateRow struct {
	state     billing.State
	chargeID  string
	version   int
	origin    billing.Origin
	settledAs string // kind of the attempt of this very claim, if it has ended before
}

func lockRow(ctx context.Context, db session, r settleRequest) (row lateRow, err error) {
	err = db.QueryRow(ctx, `SELECT state, coalesce(provider_charge_id, ''), event_version, origin_topic_id, origin_partition, origin_offset
		FROM charges WHERE order_id = $1 FOR UPDATE`, r.key()).
		Scan(&row.state, &row.chargeID, &row.version, &row.origin.TopicID, &row.origin.Partition, &row.origin.Offset)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return row, err
	}
	// After the lock: a settlement that was still under way in a session we have lost shows its attempt by now.
	err = db.QueryRow(ctx, `SELECT kind FROM charge_attempts WHERE order_id = $1 AND claim_id = $2`, r.key(), r.claim.ID).Scan(&row.settledAs)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return row, err
}

// lateWrites is the whole decision.
func lateWrites(r settleRequest, row lateRow) *pgx.Batch {
	b := &pgx.Batch{}
	addAttempt(b, r)
	switch {
	case r.end.State != billing.Succeeded:
	case row.state != billing.Succeeded:
		version := max(row.version, r.claim.Version) + 1
		overrule(b, r, version)
		addEvent(b, r, version)
	default:
		if row.chargeID != r.end.ProviderChargeID {
			addAnomaly(b, r, AnomalySecondCharge, "the row has charge "+row.chargeID)
		}
		if row.origin != r.claim.Order.Origin {
			addDuplicate(b, r)
		}
	}
	return b
}

func (s *Store) logLate(r settleRequest, row lateRow) {
	log := s.cfg.Log.With("order_id", r.key(), "state", r.end.State, "row_was", row.state)
	switch {
	case r.end.State != billing.Succeeded:
		log.Info("late failure, the row is another claim's")
	case row.state == billing.Succeeded && row.chargeID != r.end.ProviderChargeID:
		log.Error("order charged twice", "provider_charge_id", row.chargeID, "second_charge_id", clean(r.end.ProviderChargeID))
	case row.state == "":
		log.Error("the row of a charged order had vanished and was written again")
	default:
		log.Warn("late success")
	}
}

// overrule stores a success over whatever the row says. Where the row has vanished, since a failover lost the claim's
// commit, it is written as a whole: without it the next message of the order would charge it again (hazard H3).
func overrule(b *pgx.Batch, r settleRequest, version int) {
	c, o := r.claim, &r.claim.Order
	fingerprint := o.Fingerprint()
	b.Queue(`
		INSERT INTO charges AS c (order_id, generation, event_id, customer_id, amount_minor, currency, fingerprint, idempotency_key,
		       provider_account, state, attempts, event_version, first_sent_at, last_sent_at, provider_charge_id,
		       origin_topic_id, origin_partition, origin_offset, finalized_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'succeeded', $10, $11, $12, $12, nullif($13, ''), $14, $15, $16, now())
		ON CONFLICT (order_id) DO UPDATE SET
		       state = 'succeeded', reason = NULL, outcome_unknown = false, provider_charge_id = excluded.provider_charge_id,
		       event_version = excluded.event_version, claim_id = NULL, lease_until = NULL, finalized_at = now(), updated_at = now(),
		       origin_topic_id = excluded.origin_topic_id, origin_partition = excluded.origin_partition, origin_offset = excluded.origin_offset`,
		o.ID, c.Generation, o.EventID, o.CustomerID, o.Amount.Minor, o.Amount.Currency, fingerprint[:], c.Key,
		c.Account, c.Attempt, version, c.Now, r.end.ProviderChargeID,
		o.Origin.TopicID, o.Origin.Partition, o.Origin.Offset)
}

func addAttempt(b *pgx.Batch, r settleRequest) {
	a := &r.end.Attempt
	b.Queue(`
		INSERT INTO charge_attempts (order_id, generation, attempt, claim_id, kind, started_at, finished_at, reason,
		       http_status, provider_request_id, provider_charge_id, provider_code, replayed, detail)
		VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8, ''), nullif($9, 0), nullif($10, ''), nullif($11, ''), nullif($12, ''), $13, nullif($14, ''))`,
		r.key(), r.claim.Generation, r.claim.Attempt, r.claim.ID, attemptLate, a.StartedAt, a.FinishedAt, string(r.end.Reason),
		a.HTTPStatus, clean(a.ProviderRequestID), clean(r.end.ProviderChargeID), clean(a.ProviderCode), a.Replayed, clean(a.Detail))
}

// addEvent makes the event again: other claims may have told something meanwhile, so the version is the row's next.
func addEvent(b *pgx.Batch, r settleRequest, version int) {
	if r.end.Event == nil {
		return
	}
	e := r.end.Event.WithVersion(version)
	b.Queue(`INSERT INTO outbox (event_id, event_type, order_id, payload, traceparent) VALUES ($1, $2, $3, $4, nullif($5, ''))`,
		e.ID, e.Type, e.OrderID, e.Payload(), clean(e.Traceparent))
}

// addDuplicate keeps the books: the order was charged for another record, so this one is a duplicate (hazard H18).
func addDuplicate(b *pgx.Batch, r settleRequest) {
	o := r.claim.Order.Origin
	b.Queue(`
		INSERT INTO record_fates (topic_id, partition, "offset", order_id, fate) VALUES ($1, $2, $3, $4, 'duplicate')
		ON CONFLICT (topic_id, partition, "offset") DO UPDATE SET fate = excluded.fate, reason = NULL, updated_at = now()`,
		o.TopicID, o.Partition, o.Offset, r.key())
}
