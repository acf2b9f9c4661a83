package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// outwait knows how long claims have stood in our way by our own clock (hazard H9). Leases end by the database's clock, and
// that one may be set back, or be another server's after a failover: a dead claim would then stand for as long as the clocks
// differ. Whoever has seen one and the same claim for a whole lease may end it: its sender's own clock has forbidden it to
// send by then.
type outwait struct {
	mu    sync.Mutex
	first map[uuid.UUID]time.Time // by claim
}

// maxOutwaited bounds the map. Messages that wait for a lease are few; past it they wait for the database's clock.
const maxOutwaited = 4096

// seen reports whether the claim has been in the way for longer than a lease.
func (w *outwait) seen(claim uuid.UUID, lease time.Duration, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, known := w.first[claim]
	switch {
	case known && now.Sub(first) > lease:
		delete(w.first, claim)
		return true
	case known:
		return false
	}
	if len(w.first) >= maxOutwaited {
		for id, first := range w.first {
			if now.Sub(first) > 2*lease { // nobody waits for it any more
				delete(w.first, id)
			}
		}
	}
	if len(w.first) < maxOutwaited {
		w.first[claim] = now
	}
	return false
}

// endLeasesSQL compares and sets: a claim that was settled or taken over meanwhile is not the one that was seen.
const endLeasesSQL = `
UPDATE charges c SET lease_until = now() - interval '1 second'
  FROM unnest($1::uuid[], $2::uuid[]) AS seen (order_id, claim_id)
 WHERE c.order_id = seen.order_id AND c.claim_id = seen.claim_id AND c.state = 'in_flight'`

// endLeases ends the leases of claims by order, so that the orders can be claimed as after any expired lease.
func (s *Store) endLeases(claims map[uuid.UUID]uuid.UUID) error {
	if len(claims) == 0 {
		return nil
	}
	orders, ids := make(uuids, 0, len(claims)), make(uuids, 0, len(claims))
	for order, id := range claims {
		orders, ids = append(orders, order), append(ids, id)
		s.cfg.Log.Warn("a claim outlived its lease by our clock, not by the database's: ended", "order_id", order)
	}
	return s.patiently(context.Background(), "end outlived leases", func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, endLeasesSQL, orders, ids)
		return err
	})
}
