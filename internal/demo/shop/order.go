package shop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/platform/kafkaclient"
)

// namespace of the ids of orders that were placed with an Idempotency-Key.
var namespace = uuid.MustParse("b0f5a1f0-5c1c-5c39-8a86-7d6b5b7a4d11")

// event is what the shop tells the world: billing needs the first four fields and takes the fifth.
type event struct {
	EventID     uuid.UUID `json:"event_id"`
	OrderID     uuid.UUID `json:"order_id"`
	CustomerID  uuid.UUID `json:"customer_id"`
	TotalAmount string    `json:"total_amount"`
	Currency    string    `json:"currency,omitempty"`
	EventType   string    `json:"event_type"`
	OccurredAt  time.Time `json:"occurred_at"`
}

func (s *Shop) placeOrder(w http.ResponseWriter, r *http.Request) {
	o, problem := s.readOrder(w, r)
	if problem != nil {
		problem.write(w)
		return
	}
	e := event{
		CustomerID: o.customer, TotalAmount: o.amount, Currency: o.currency,
		EventType: "order.confirmed.v1", OccurredAt: s.cfg.Now().UTC().Truncate(time.Millisecond),
	}
	e.OrderID, e.EventID = ids(o.customer, r.Header.Get("Idempotency-Key"))
	if err := s.publish(r.Context(), e, r.Header.Get("traceparent")); err != nil {
		s.cfg.Log.Warn("order not taken", "order_id", e.OrderID, "error", err)
		w.Header().Set("Retry-After", "1")
		unavailable.write(w)
		return
	}
	answer(w, http.StatusCreated, map[string]uuid.UUID{"order_id": e.OrderID, "event_id": e.EventID})
}

// ids are random, or follow from the client's Idempotency-Key: an order sent again after a 503, which may have been taken
// all the same, then keeps its id and is charged once.
func ids(customer uuid.UUID, key string) (order, event uuid.UUID) {
	if key == "" {
		return uuid.New(), uuid.New()
	}
	return uuid.NewSHA1(namespace, fmt.Appendf(nil, "order|%s|%s", customer, key)),
		uuid.NewSHA1(namespace, fmt.Appendf(nil, "event|%s|%s", customer, key))
}

// publish waits for the broker's word, also when the client has gone: the event is on its way in any case.
func (s *Shop) publish(ctx context.Context, e event, traceparent string) error {
	value, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode the event: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.PublishTimeout)
	defer cancel()
	record := kafkaclient.Record{Topic: s.cfg.Topic, Key: []byte(e.OrderID.String()), Value: value}
	record.Headers = append(record.Headers, kafkaclient.Header{Key: "traceparent", Value: []byte(continued(traceparent))})
	if err := s.pub.Publish(ctx, record); err != nil {
		return fmt.Errorf("publish to %s: %w", s.cfg.Topic, err)
	}
	return nil
}
