package admin

import (
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
)

// letterView is a dead letter as the API shows it. What cannot be told is null.
type letterView struct {
	ID             int64            `json:"id"`
	Topic          string           `json:"topic"`
	Partition      int32            `json:"partition"`
	Offset         int64            `json:"offset"`
	State          deadletter.State `json:"state"`
	Class          failure.Class    `json:"class"`
	Reason         failure.Reason   `json:"reason"`
	Error          string           `json:"error"`
	Failures       int              `json:"failures"`
	OrderID        *uuid.UUID       `json:"order_id"`
	Amount         *string          `json:"amount"`
	Currency       *string          `json:"currency"`
	Origin         *originView      `json:"origin"`
	FirstFailureAt *time.Time       `json:"first_failure_at"`
	DeadAt         time.Time        `json:"dead_at"`
	ReplayCount    int              `json:"replay_count"`
	ReplayID       *uuid.UUID       `json:"replay_id"`
	ReplayTarget   *string          `json:"replay_target"`
	FinishedAt     *time.Time       `json:"finished_at"`
	DuplicateOf    *int64           `json:"duplicate_of"` // the id of the first record of the same death
}

type originView struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Timestamp *time.Time `json:"timestamp"`
}

func viewLetter(l deadletter.Letter) letterView {
	v := letterView{
		ID: l.ID, Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, State: l.State, Class: l.Class, Reason: l.Reason, Error: l.Error,
		Failures: l.Failures, OrderID: l.OrderID, Currency: l.Currency, FirstFailureAt: utc(l.FirstFailure), DeadAt: l.DeadAt.UTC(),
		ReplayCount: l.ReplayCount, ReplayID: l.ReplayID, ReplayTarget: l.ReplayTarget, FinishedAt: utc(l.FinishedAt), DuplicateOf: l.DuplicateOf,
	}
	if l.AmountMinor != nil {
		amount := billing.Money{Minor: *l.AmountMinor, Currency: *l.Currency}.Decimal()
		v.Amount = &amount
	}
	if l.OriginTopic != nil {
		v.Origin = &originView{*l.OriginTopic, *l.OriginPart, *l.OriginOffset, utc(l.OriginAt)}
	}
	return v
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
