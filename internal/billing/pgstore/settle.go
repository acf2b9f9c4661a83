package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/platform/crash"
)

// settleRequest is the end of one claim on its way.
type settleRequest struct {
	claim *billing.Claim
	end   billing.Settlement
}

func (r settleRequest) key() uuid.UUID { return r.claim.Order.ID }

// Settle ends the claim: state, attempt and event in one transaction. It reports false when the claim no longer holds the
// row: a failure then leaves only its attempt, a success is stored all the same.
//
// It may be called again with the same settlement after an error, or after its caller has gone: a claim is settled once.
func (s *Store) Settle(ctx context.Context, c *billing.Claim, end billing.Settlement) (held bool, err error) {
	crash.At(crash.BeforeSettle)
	held, err = s.settles.do(ctx, settleRequest{c, end})
	crash.At(crash.AfterSettle)
	return held, err
}

type settleJob = job[settleRequest, bool]

func (s *Store) settleBatch(batch []*settleJob, brief bool) {
	isolate(batch, brief, s.settleAll)
	events := false
	for _, j := range batch {
		if isRefusal(j.err) {
			j.out, j.err = false, s.recordUnwritable(j.in, j.err)
		}
		events = events || j.err == nil && j.in.end.Event != nil
	}
	if events {
		s.cfg.EventWritten()
	}
}

// settleAll settles all or none. Whoever's row was not held any more goes through the late path, one by one.
func (s *Store) settleAll(batch []*settleJob, brief bool) error {
	held, err := s.updateHeld(batch, brief)
	if err != nil {
		return err
	}
	for _, j := range batch {
		if j.out = held[j.in.claim.ID]; !j.out {
			j.out, j.err = s.settleLate(j.in)
		}
	}
	return nil
}

// settleHeldSQL writes state, attempt and event of each claim that still holds its row, and lists the order when its outcome
// is not known. A repetition after a lost answer finds no row that is held, and the late path finds the attempt.
//
// Without a send the instants before the claim are restored: only this settlement can prove that nothing was sent (H2).
const settleHeldSQL = `
WITH settled AS (
    UPDATE charges c SET
           state = i.state, reason = nullif(i.reason, ''), outcome_unknown = i.outcome_unknown,
           provider_charge_id = coalesce(nullif(i.charge_id, ''), c.provider_charge_id),
           event_version = c.event_version + (i.event_type <> '')::integer, claim_id = NULL, lease_until = NULL,
           first_sent_at = CASE WHEN i.sent OR c.previous_sent_at IS NOT NULL THEN c.first_sent_at END,
           last_sent_at = CASE WHEN i.sent THEN c.last_sent_at ELSE c.previous_sent_at END,
           finalized_at = CASE WHEN i.state IN ('succeeded', 'declined', 'rejected') THEN now() END,
           updated_at = now()
      FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::boolean[], $6::boolean[], $7::text[],
                  $8::text[], $9::timestamptz[], $10::timestamptz[], $11::integer[], $12::text[], $13::text[], $14::boolean[], $15::text[],
                  $16::uuid[], $17::text[], $18::bytea[], $19::text[])
        AS i (order_id, claim_id, state, reason, outcome_unknown, sent, charge_id,
              kind, started_at, finished_at, http_status, request_id, code, replayed, detail,
              event_id, event_type, payload, traceparent)
     WHERE c.order_id = i.order_id AND c.claim_id = i.claim_id AND c.state = 'in_flight'
    RETURNING c.generation, c.attempts, i.*
), attempts AS (
    INSERT INTO charge_attempts (order_id, generation, attempt, claim_id, kind, started_at, finished_at, reason,
           http_status, provider_request_id, provider_charge_id, provider_code, replayed, detail)
    SELECT order_id, generation, attempts, claim_id, kind, started_at, finished_at, nullif(reason, ''),
           nullif(http_status, 0), nullif(request_id, ''), nullif(charge_id, ''), nullif(code, ''), replayed, nullif(detail, '')
      FROM settled
), events AS (
    INSERT INTO outbox (event_id, event_type, order_id, payload, traceparent)
    SELECT event_id, event_type, order_id, payload, nullif(traceparent, '') FROM settled WHERE event_type <> ''
), listed AS (
    INSERT INTO unknown_outcomes (order_id) SELECT order_id FROM settled WHERE state IN ('unknown', 'review')
    ON CONFLICT DO NOTHING
)
SELECT claim_id FROM settled`

func (s *Store) updateHeld(batch []*settleJob, brief bool) (held map[uuid.UUID]bool, err error) {
	args := settleArgs(batch)
	err = s.patiently(context.Background(), "settle", briefly(brief, func(ctx context.Context, db session) error {
		held = make(map[uuid.UUID]bool, len(batch))
		rows, err := db.Query(ctx, settleHeldSQL, args...)
		if err != nil {
			return err
		}
		var id uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
			held[id] = true
			return nil
		})
		return err
	}))
	return held, err
}

// settleArgs are sorted by order id: rows are locked in one order by all batches.
func settleArgs(batch []*settleJob) []any {
	n := len(batch)
	orders, claims, eventIDs := make(uuids, n), make(uuids, n), make(uuids, n)
	states, reasons, chargeIDs, kinds, requestIDs, codes, details := texts(n), texts(n), texts(n), texts(n), texts(n), texts(n), texts(n)
	types, traces, payloads := texts(n), texts(n), make([][]byte, n)
	unknown, sent, replayed := make([]bool, n), make([]bool, n), make([]bool, n)
	started, finished, status := make([]time.Time, n), make([]time.Time, n), make([]int32, n)
	for i, j := range sortedByOrder(batch) {
		c, e := j.in.claim, &j.in.end
		a := &e.Attempt
		orders[i], claims[i] = c.Order.ID, c.ID
		states[i], reasons[i], unknown[i], sent[i], chargeIDs[i] = string(e.State), string(e.Reason), e.Unknown || e.State == billing.Unknown, e.Sent, e.ProviderChargeID
		kinds[i], started[i], finished[i], status[i], replayed[i] = a.Kind, a.StartedAt, a.FinishedAt, int32(a.HTTPStatus), a.Replayed
		requestIDs[i], codes[i], details[i] = clean(a.ProviderRequestID), clean(a.ProviderCode), clean(a.Detail)
		if e.Event != nil {
			eventIDs[i], types[i], payloads[i], traces[i] = e.Event.ID, e.Event.Type, e.Event.Payload(), clean(e.Event.Traceparent)
		}
	}
	return []any{orders, claims, states, reasons, unknown, sent, chargeIDs, kinds, started, finished, status, requestIDs, codes, replayed, details,
		eventIDs, types, payloads, traces}
}
