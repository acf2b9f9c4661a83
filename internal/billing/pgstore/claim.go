package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/crash"
)

// claimRequest is one claim on its way. Its id is fresh, so that no two claims can be taken for each other: neither two
// messages of one order nor a claim and its repetition after a lost answer (hazard H9).
type claimRequest struct {
	id          uuid.UUID
	order       billing.Order
	fingerprint [32]byte
}

func (r claimRequest) key() uuid.UUID { return r.order.ID }

// claimResult is either a claim or what stands in its way.
type claimResult struct {
	claim    *billing.Claim
	standing *billing.Standing
}

// Claim takes the order for one lease, or says what stands in the way.
//
// A caller whose context ends before the statement began has claimed nothing. If it ends while the statement runs, the
// claim is given back as soon as it is known, with nothing sent; if even that fails, the lease ends it.
func (s *Store) Claim(ctx context.Context, o billing.Order) (*billing.Claim, *billing.Standing, error) {
	r, err := s.claims.do(ctx, claimRequest{id: uuid.New(), order: o, fingerprint: o.Fingerprint()})
	if err != nil {
		return nil, nil, err
	}
	if r.claim != nil {
		crash.At(crash.AfterClaim)
	}
	return r.claim, r.standing, nil
}

// release gives a claim back whose caller has gone.
func (s *Store) release(r claimRequest, result claimResult) {
	if result.claim == nil {
		return
	}
	st := billing.Settlement{State: billing.RetryWait, Unknown: result.claim.Unknown, Reason: failure.ShuttingDown}
	if st.Unknown {
		st.State = billing.Unknown
	}
	now := s.cfg.Clock()
	st.Attempt = billing.Attempt{Kind: "system", StartedAt: now, FinishedAt: now, Reason: st.Reason, Detail: "given up before anything was sent"}
	end := settleRequest{result.claim, st}
	if _, err := s.settles.of(end).put(end); err != nil {
		s.cfg.Log.Warn("claim left to its lease", "order_id", r.order.ID, "error", err)
	}
}

type claimJob = job[claimRequest, claimResult]

func (s *Store) claimBatch(batch []*claimJob, brief bool) {
	isolate(batch, brief, s.claimAll)
	s.tellLocked(batch)
}

// tellLocked finds out whether it is the row that is locked or the table. A locked row is worked on by somebody, and its
// order waits; a table is everyone's.
func (s *Store) tellLocked(batch []*claimJob) {
	waited := slices.DeleteFunc(slices.Clone(batch), func(j *claimJob) bool { return !isLockWait(j.err) })
	if len(waited) == 0 {
		return
	}
	free := s.patiently(context.Background(), "look at a locked table", briefly(true, func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, `LOCK TABLE charges IN ROW EXCLUSIVE MODE NOWAIT`)
		return err
	}))
	if free != nil {
		return
	}
	for _, j := range waited {
		j.err = failure.New(failure.OrderBusy, "the row of order %s is locked by another session: %w", j.in.order.ID, j.err)
	}
}

// claimAll claims all or none. A row can change between the statement that failed to claim it and the one that reads why:
// then it is claimed again, a few times at most.
func (s *Store) claimAll(batch []*claimJob, brief bool) error {
	left := batch
	for range 3 {
		var err error
		if left, err = s.claimOrRead(left, brief); err != nil || len(left) == 0 {
			return err
		}
	}
	for _, j := range left { // too lively to be taken: as good as taken by another
		j.out.standing = &billing.Standing{State: billing.InFlight, SameContent: true, Currency: j.in.order.Amount.Currency}
	}
	return nil
}

// claimOrRead claims what it can, reads what stands in the way of the rest, and returns those that nothing stands in the
// way of any more. An error is that of the claim, and of all; who cannot be told what stands in the way fails alone.
func (s *Store) claimOrRead(batch []*claimJob, brief bool) (left []*claimJob, err error) {
	rest, started, err := s.insertClaims(batch, brief)
	if err != nil || len(rest) == 0 {
		return nil, err
	}
	left, err = s.readStandings(rest, started)
	if err != nil {
		for _, j := range rest {
			j.err = err
		}
	}
	return left, nil
}

// insertClaimsSQL is the claim: one statement for the batch, one commit. Rows are taken in the order of their ids, so that
// two batches never wait for each other in a circle.
//
// The claim itself commits that something may have been sent from now on (H2), and whoever takes over an expired lease
// finds the outcome unknown (H5). Key and account are those of the first claim, for ever (H6). While an operator has paused
// the consumption, the whole statement is refused (H20).
const insertClaimsSQL = `
INSERT INTO charges AS c (order_id, event_id, customer_id, amount_minor, currency, fingerprint, idempotency_key, provider_account,
       state, first_sent_at, claim_id, lease_until, last_sent_at, origin_topic_id, origin_partition, origin_offset)
SELECT i.order_id, i.event_id, i.customer_id, i.amount_minor, i.currency, i.fingerprint, i.idempotency_key, $12,
       'in_flight', now(), i.claim_id, now() + $13::interval, now(), i.topic_id, i.partition, i."offset"
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[], $6::bytea[], $7::uuid[], $8::uuid[],
            $9::uuid[], $10::integer[], $11::bigint[])
  AS i (order_id, event_id, customer_id, amount_minor, currency, fingerprint, idempotency_key, claim_id, topic_id, partition, "offset")
WHERE unless_paused()
ORDER BY i.order_id
ON CONFLICT (order_id) DO UPDATE SET
       state = 'in_flight', claim_id = excluded.claim_id, lease_until = excluded.lease_until, attempts = c.attempts + 1,
       outcome_unknown = c.outcome_unknown OR c.state IN ('in_flight', 'unknown'),
       first_sent_at = coalesce(c.first_sent_at, now()), previous_sent_at = c.last_sent_at, last_sent_at = now(),
       origin_topic_id = excluded.origin_topic_id, origin_partition = excluded.origin_partition, origin_offset = excluded.origin_offset,
       updated_at = now()
 WHERE c.fingerprint = excluded.fingerprint
   AND (c.state IN ('retry_wait', 'unknown') OR (c.state = 'in_flight' AND c.lease_until < now()))
RETURNING ` + claimColumns

// insertClaims returns those that it could not claim. A try whose answer was lost may have claimed them all the same; they
// are told by their claim id when they are read.
func (s *Store) insertClaims(batch []*claimJob, brief bool) (rest map[uuid.UUID]*claimJob, started time.Time, err error) {
	args := s.claimArgs(batch)
	err = s.patiently(context.Background(), "claim", briefly(brief, func(ctx context.Context, db session) error {
		rest = make(map[uuid.UUID]*claimJob, len(batch))
		for _, j := range batch {
			rest[j.in.order.ID] = j
		}
		if !db.doubt { // SendBy and LeaseEnd count from before the first statement that may have taken the lease (hazard H1)
			started = s.cfg.Clock()
		}
		rows, err := db.Query(ctx, insertClaimsSQL, args...)
		if err != nil {
			return err
		}
		var r claimRow
		_, err = pgx.ForEachRow(rows, r.columns(), func() error {
			j := rest[r.orderID]
			j.out = claimResult{claim: s.newClaim(j.in, r, started)}
			delete(rest, r.orderID)
			return nil
		})
		return err
	}))
	return rest, started, err
}

func (s *Store) claimArgs(batch []*claimJob) []any {
	n := len(batch)
	orders, events, customers, keys, ids, topics := make(uuids, n), make(uuids, n), make(uuids, n), make(uuids, n), make(uuids, n), make(uuids, n)
	amounts, currencies, fingerprints := make([]int64, n), make([]string, n), make([][]byte, n)
	partitions, offsets := make([]int32, n), make([]int64, n)
	for i, j := range batch {
		o := &j.in.order
		orders[i], events[i], customers[i], ids[i] = o.ID, o.EventID, o.CustomerID, j.in.id
		amounts[i], currencies[i], fingerprints[i] = o.Amount.Minor, o.Amount.Currency, j.in.fingerprint[:]
		keys[i] = billing.IdempotencyKey(s.cfg.Environment, s.cfg.Account, o.ID, 1)
		topics[i], partitions[i], offsets[i] = o.Origin.TopicID, o.Origin.Partition, o.Origin.Offset
	}
	return []any{orders, events, customers, amounts, currencies, fingerprints, keys, ids, topics, partitions, offsets, s.cfg.Account, s.cfg.Lease}
}

// claimColumns are what a claim must know of its row. Amount and currency are not among them: the fingerprint covers both,
// so they are those of the order that was asked for.
const claimColumns = `c.order_id, c.idempotency_key, c.provider_account, c.generation, c.attempts, c.event_version, c.outcome_unknown,
       c.first_sent_at, c.previous_sent_at, now()`

type claimRow struct {
	orderID, key                  uuid.UUID
	account                       string
	generation, attempts, version int
	unknown                       bool
	firstSent, previousSent       *time.Time
	now                           time.Time
}

func (r *claimRow) columns() []any {
	return []any{&r.orderID, &r.key, &r.account, &r.generation, &r.attempts, &r.version, &r.unknown, &r.firstSent, &r.previousSent, &r.now}
}

func (s *Store) newClaim(in claimRequest, r claimRow, started time.Time) *billing.Claim {
	c := &billing.Claim{
		ID: in.id, Order: in.order, Generation: r.generation, Key: r.key, Account: r.account,
		Attempt: r.attempts, Version: r.version, Fresh: r.attempts == 1, Unknown: r.unknown,
		Now: r.now, SendBy: started.Add(s.cfg.Lease - s.cfg.ProviderTimeout), LeaseEnd: started.Add(s.cfg.Lease),
	}
	if r.previousSent != nil { // else this claim is the first that may send, and first_sent_at is its own
		c.FirstSentAt, c.LastSentAt = *r.firstSent, *r.previousSent
	}
	return c
}
