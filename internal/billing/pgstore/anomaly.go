package pgstore

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// What must not happen, and did. Each one pages.
const (
	AnomalySecondCharge  = "second_charge"
	AnomalyContradiction = "contradiction" // a charge at the provider that is not what was asked for
	anomalyUnwritable    = "unwritable_outcome"
)

// recordUnwritable keeps an outcome that the tables refuse, where nothing refuses it (hazard H14). It then counts as
// written: asking again would be refused again.
func (s *Store) recordUnwritable(r settleRequest, cause error) error {
	s.cfg.Log.Error("outcome refused by the database, kept as an anomaly", "order_id", r.key(), "state", r.end.State, "error", cause)
	return s.patiently(context.Background(), "record anomaly", func(ctx context.Context, db session) error {
		b := &pgx.Batch{}
		addAnomaly(b, r, anomalyUnwritable, cause.Error())
		return db.SendBatch(ctx, b).Close()
	})
}

// addAnomaly tells which claim found it, and of what.
func addAnomaly(b *pgx.Batch, r settleRequest, kind, detail string) {
	queueAnomaly(b, r.key(), kind, r.end.ProviderChargeID, fmt.Sprintf("claim %s, %s: %s", r.claim.ID, r.end.State, detail))
}

// queueAnomaly adds it once, however often it is found.
func queueAnomaly(b *pgx.Batch, order uuid.UUID, kind, chargeID, detail string) {
	b.Queue(`
		INSERT INTO charge_anomalies (order_id, kind, provider_charge_id, detail)
		SELECT $1::uuid, $2::text, nullif($3, ''), $4::text WHERE NOT EXISTS (
		    SELECT FROM charge_anomalies WHERE order_id = $1 AND kind = $2 AND provider_charge_id IS NOT DISTINCT FROM nullif($3, ''))`,
		order, kind, clean(chargeID), clean(detail))
}

// RecordAnomaly keeps one that was found outside of a settlement.
func (s *Store) RecordAnomaly(ctx context.Context, order uuid.UUID, kind, chargeID, detail string) error {
	return s.patiently(ctx, "record anomaly", func(ctx context.Context, db session) error {
		b := &pgx.Batch{}
		queueAnomaly(b, order, kind, chargeID, detail)
		return db.SendBatch(ctx, b).Close()
	})
}
