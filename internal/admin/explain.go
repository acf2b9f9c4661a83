package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"example.com/billing/internal/billing"
)

// history reads what happened to an order. It writes nothing.
type history struct{ pool *pgxpool.Pool }

type orderView struct {
	OrderID     uuid.UUID     `json:"order_id"`
	Charge      *chargeView   `json:"charge"` // null: never claimed
	Attempts    []attemptView `json:"attempts"`
	Records     []fateView    `json:"records"` // of the main topic: where they stand when they did not end as the charge
	DeadLetters []letterView  `json:"dead_letters"`
}

type chargeView struct {
	State            billing.State `json:"state"`
	Reason           *string       `json:"reason"`
	Amount           string        `json:"amount"`
	Currency         string        `json:"currency"`
	Generation       int           `json:"generation"`
	Attempts         int           `json:"attempts"`
	OutcomeUnknown   bool          `json:"outcome_unknown"`
	ProviderAccount  string        `json:"provider_account"`
	ProviderChargeID *string       `json:"provider_charge_id"`
	FirstSentAt      *time.Time    `json:"first_sent_at"`
	LastSentAt       *time.Time    `json:"last_sent_at"`
	LeaseUntil       *time.Time    `json:"lease_until"`
	CreatedAt        time.Time     `json:"created_at"`
	UpdatedAt        time.Time     `json:"updated_at"`
	FinalizedAt      *time.Time    `json:"finalized_at"`
}

type attemptView struct {
	Generation        int       `json:"generation"`
	Attempt           int       `json:"attempt"`
	Kind              string    `json:"kind"`
	StartedAt         time.Time `json:"started_at"`
	FinishedAt        time.Time `json:"finished_at"`
	Reason            *string   `json:"reason"` // null: success
	HTTPStatus        *int      `json:"http_status"`
	ProviderRequestID *string   `json:"provider_request_id"`
	ProviderChargeID  *string   `json:"provider_charge_id"`
	ProviderCode      *string   `json:"provider_code"`
	Replayed          bool      `json:"replayed"`
	Detail            *string   `json:"detail"`
}

type fateView struct {
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Fate      string    `json:"fate"`
	Reason    *string   `json:"reason"`
	UpdatedAt time.Time `json:"updated_at"`
}

// explain answers GET /admin/orders/{order_id}.
func (s *Server) explain(c echo.Context, _ Token) (any, error) {
	id, ctx := valueOf[uuid.UUID](c, orderIDParam), c.Request().Context()
	v := orderView{OrderID: id, DeadLetters: []letterView{}}
	var err error
	if v.Charge, err = s.history.charge(ctx, id); err != nil {
		return nil, err
	}
	if v.Attempts, err = s.history.attempts(ctx, id); err != nil {
		return nil, err
	}
	if v.Records, err = s.history.fates(ctx, id); err != nil {
		return nil, err
	}
	letters, err := s.deps.Letters.OfOrder(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, l := range letters {
		v.DeadLetters = append(v.DeadLetters, viewLetter(l))
	}
	if v.Charge == nil && len(v.Records) == 0 && len(letters) == 0 {
		return nil, refuse(http.StatusNotFound, "nothing is known of this order: it never arrived, or it waits in the main topic")
	}
	return v, nil
}

func (h history) charge(ctx context.Context, id uuid.UUID) (*chargeView, error) {
	var v chargeView
	var minor int64
	err := h.pool.QueryRow(ctx, `
		SELECT state, reason, amount_minor, currency, generation, attempts, outcome_unknown, provider_account, provider_charge_id,
			first_sent_at, last_sent_at, lease_until, created_at, updated_at, finalized_at
		FROM charges WHERE order_id = $1`, id).Scan(&v.State, &v.Reason, &minor, &v.Currency, &v.Generation, &v.Attempts, &v.OutcomeUnknown,
		&v.ProviderAccount, &v.ProviderChargeID, &v.FirstSentAt, &v.LastSentAt, &v.LeaseUntil, &v.CreatedAt, &v.UpdatedAt, &v.FinalizedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read charge %s: %w", id, err)
	}
	v.Amount = billing.Money{Minor: minor, Currency: v.Currency}.Decimal()
	return &v, nil
}

func (h history) attempts(ctx context.Context, id uuid.UUID) ([]attemptView, error) {
	rows, err := h.pool.Query(ctx, `
		SELECT generation, attempt, kind, started_at, finished_at, reason, http_status, provider_request_id, provider_charge_id, provider_code, replayed, detail
		FROM charge_attempts WHERE order_id = $1 ORDER BY started_at, attempt LIMIT 1000`, id)
	if err != nil {
		return nil, fmt.Errorf("read attempts of %s: %w", id, err)
	}
	return collect[attemptView](rows)
}

// fates are found by the records that the charge and the dead letters name: record_fates has no index by order.
func (h history) fates(ctx context.Context, id uuid.UUID) ([]fateView, error) {
	rows, err := h.pool.Query(ctx, `
		SELECT partition, "offset", fate, reason, updated_at FROM record_fates
		WHERE (topic_id, partition, "offset") IN (
			SELECT origin_topic_id, origin_partition, origin_offset FROM charges WHERE order_id = $1
			UNION SELECT origin_topic_id, origin_partition, origin_offset FROM dead_letters WHERE order_id = $1)
		ORDER BY updated_at LIMIT 1000`, id)
	if err != nil {
		return nil, fmt.Errorf("read fates of %s: %w", id, err)
	}
	return collect[fateView](rows)
}

// collect reads rows into structs by the position of their fields, never into nil.
func collect[T any](rows pgx.Rows) ([]T, error) {
	views, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	return append([]T{}, views...), nil
}
