package admin

import (
	"context"
	"encoding/base64"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"example.com/billing/internal/audit"
	"example.com/billing/internal/billing"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
)

// readTimeout bounds the reading of one record from the broker.
const readTimeout = 10 * time.Second

type topicView struct {
	Topic         string                   `json:"topic"`
	Unresolved    int64                    `json:"unresolved"`
	ByReason      map[failure.Reason]int64 `json:"by_reason"`
	AmountAtRisk  []moneyView              `json:"amount_at_risk"`
	OldestSeconds int64                    `json:"oldest_seconds"`
}

type moneyView struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

// listTopics answers GET /admin/dlq.
func (s *Server) listTopics(c echo.Context, _ Token) (any, error) {
	stats, err := s.deps.Letters.Stats(c.Request().Context(), s.cfg.DeadLetters)
	if err != nil {
		return nil, err
	}
	v := topicView{Topic: s.cfg.DeadLetters, ByReason: stats.Unresolved, AmountAtRisk: []moneyView{}, OldestSeconds: int64(stats.Oldest.Seconds())}
	for _, n := range stats.Unresolved {
		v.Unresolved += n
	}
	for currency, minor := range stats.Amount {
		v.AmountAtRisk = append(v.AmountAtRisk, moneyView{billing.Money{Minor: minor, Currency: currency}.Decimal(), currency})
	}
	slices.SortFunc(v.AmountAtRisk, func(a, b moneyView) int {
		if a.Currency < b.Currency {
			return -1
		}
		return 1
	})
	return page[topicView]{Data: []topicView{v}}, nil
}

// listLetters answers GET /admin/dlq/{dlq_topic}/messages.
func (s *Server) listLetters(c echo.Context, _ Token) (any, error) {
	if err := s.knownTopic(c); err != nil {
		return nil, err
	}
	begin, end, err := span(c)
	if err != nil {
		return nil, err
	}
	limit := pageLimit(c)
	letters, err := s.deps.Letters.Find(c.Request().Context(), s.cfg.DeadLetters, deadletter.Filter{
		State: valueOf[deadletter.State](c, stateParam), Reason: valueOf[failure.Reason](c, reasonParam), Class: valueOf[failure.Class](c, classParam),
		OrderID: valueOf[uuid.UUID](c, orderIDParam), From: begin, To: end, Before: valueOf[int64](c, cursorParam), Limit: limit + 1,
	})
	if err != nil {
		return nil, err
	}
	return paged(letters, limit, func(l deadletter.Letter) int64 { return l.ID }, viewLetter), nil
}

func (s *Server) knownTopic(c echo.Context) error {
	if topic := valueOf[string](c, dlqTopicParam); topic != s.cfg.DeadLetters {
		return &deadletter.TopicError{Topic: topic, Want: s.cfg.DeadLetters}
	}
	return nil
}

type shownLetter struct {
	letterView
	Record *recordView `json:"record"` // null: the topic does not hold it any more
}

type recordView struct {
	Timestamp     time.Time    `json:"timestamp"`
	Headers       []headerView `json:"headers"`
	HiddenHeaders int          `json:"hidden_headers"`  // of producers, not for this role
	Key           *bytesView   `json:"key,omitempty"`   // operators and approvers only
	Value         *bytesView   `json:"value,omitempty"` // the same
}

type headerView struct {
	Name string `json:"name"`
	bytesView
}

// bytesView shows UTF-8 as text and anything else as base64; both empty: null, as Kafka knows it.
type bytesView struct {
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
}

func viewBytes(b []byte) bytesView {
	if b == nil {
		return bytesView{}
	}
	text := string(b)
	if utf8.Valid(b) {
		return bytesView{Text: &text}
	}
	text = base64.StdEncoding.EncodeToString(b)
	return bytesView{Base64: &text}
}

// showLetter answers GET /admin/dlq/{dlq_topic}/messages/{partition}/{offset}.
func (s *Server) showLetter(c echo.Context, by Token) (any, error) {
	if err := s.knownTopic(c); err != nil {
		return nil, err
	}
	at := deadletter.Place{Partition: int32(valueOf[int64](c, partitionParam)), Offset: valueOf[int64](c, offsetParam)}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readTimeout)
	defer cancel()
	letter, err := s.deps.Letters.At(ctx, s.cfg.DeadLetters, at)
	if err != nil {
		return nil, err
	}
	found, err := s.deps.Records.At(ctx, s.cfg.DeadLetters, []deadletter.Place{at})
	if err != nil {
		return nil, err
	}
	shown := shownLetter{letterView: viewLetter(letter)}
	d, ok := found[at]
	if !ok {
		return shown, nil
	}
	shown.Record = s.viewRecord(d.Message, by.Role)
	if by.Role < Operator {
		return shown, nil
	}
	// The trail first: nobody reads a payload without it.
	err = s.audit.Write(ctx, audit.Entry{
		Actor: by.actor(), Action: "dlq.read", Reason: "not given", Target: map[string]any{"topic": letter.Topic, "partition": at.Partition, "offset": at.Offset},
		RequestID: requestID(c), Outcome: "shown",
	})
	if err != nil {
		return nil, err
	}
	key, value := viewBytes(d.Message.Key), viewBytes(d.Message.Value)
	shown.Record.Key, shown.Record.Value = &key, &value
	return shown, nil
}
