package pgstore

import (
	"bytes"
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// readStandingsSQL is a second statement, since a row that the claim did not return may have been committed after the claim's snapshot.
const readStandingsSQL = `
SELECT ` + claimColumns + `, c.claim_id, c.state, coalesce(c.reason, ''), c.fingerprint, c.currency, coalesce(c.provider_charge_id, ''),
       c.origin_topic_id, c.origin_partition, c.origin_offset,
       c.state IN ('retry_wait', 'unknown') OR (c.state = 'in_flight' AND c.lease_until < now())
FROM charges c WHERE c.order_id = ANY ($1::uuid[])`

type standingRow struct {
	claimRow
	claimID     *uuid.UUID
	state       string
	reason      string
	fingerprint []byte
	currency    string
	chargeID    string
	origin      billing.Origin
	claimable   bool
}

func (r *standingRow) columns() []any {
	return append(r.claimRow.columns(), &r.claimID, &r.state, &r.reason, &r.fingerprint, &r.currency, &r.chargeID,
		&r.origin.TopicID, &r.origin.Partition, &r.origin.Offset, &r.claimable)
}

// readStandings reads what stands in the way, and returns those that nothing stands in the way of: the row has vanished, or
// can be claimed by now. A row that carries our own claim id was claimed by us in a try whose answer was lost. Claims that
// have stood for a whole lease are ended.
func (s *Store) readStandings(rest map[uuid.UUID]*claimJob, started time.Time) (left []*claimJob, err error) {
	ids := make(uuids, 0, len(rest))
	for id := range rest {
		ids = append(ids, id)
	}
	told := make(map[uuid.UUID]bool, len(rest))
	inTheWay := make(map[uuid.UUID]uuid.UUID)
	err = s.patiently(context.Background(), "read what stands in the way of a claim", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, readStandingsSQL, ids)
		if err != nil {
			return err
		}
		var r standingRow
		_, err = pgx.ForEachRow(rows, r.columns(), func() error {
			j := rest[r.orderID]
			j.out, told[r.orderID] = s.told(j.in, &r, started)
			if st := j.out.standing; st != nil && st.SameContent && st.State == billing.InFlight {
				inTheWay[r.orderID] = *r.claimID
			}
			return nil
		})
		return err
	})
	if err == nil {
		err = s.endOutlived(inTheWay, told)
	}
	for id, j := range rest {
		if !told[id] {
			left = append(left, j)
		}
	}
	return left, err
}

// endOutlived ends the claims that have been in the way for longer than a lease; their orders count as not told.
func (s *Store) endOutlived(claims map[uuid.UUID]uuid.UUID, told map[uuid.UUID]bool) error {
	for order, claim := range claims {
		if s.outwait.seen(claim, s.cfg.Lease+sendMargin, s.cfg.Clock()) {
			told[order] = false
		} else {
			delete(claims, order)
		}
	}
	return s.endLeases(claims)
}

// told is the result that the row allows; ok is false when it allows to claim it again.
func (s *Store) told(in claimRequest, r *standingRow, started time.Time) (result claimResult, ok bool) {
	same := bytes.Equal(r.fingerprint, in.fingerprint[:])
	switch {
	case r.claimID != nil && *r.claimID == in.id:
		return claimResult{claim: s.newClaim(in, r.claimRow, started)}, true
	case same && r.claimable:
		return claimResult{}, false
	}
	return claimResult{standing: r.standing(same)}, true
}

func (r *standingRow) standing(same bool) *billing.Standing {
	return &billing.Standing{
		State: billing.State(r.state), Reason: failure.Reason(r.reason), SameContent: same,
		Currency: r.currency, ProviderChargeID: r.chargeID, Origin: r.origin,
	}
}
