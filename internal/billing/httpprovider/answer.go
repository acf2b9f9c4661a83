package httpprovider

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

func (a answer) success() bool {
	return a.status == http.StatusOK || a.status == http.StatusCreated
}

// problem is what we read of a refusal's body.
type problem struct {
	Code, Title string // without what repeats a secret
	Contract    bool   // it is as the contract writes a refusal: application/problem+json with a code that is not empty
}

// problem reads the body of a refusal as far as it can be read. What is in no form of ours came from something in between,
// or from a platform that the provider runs on.
func (a answer) problem(secrets ...string) problem {
	fields, err := object(a.body)
	if err != nil {
		return problem{}
	}
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")) // a wrong parameter leaves the kind readable
	code := text(fields["code"])
	return problem{
		Code: visible(without(code, secrets)), Title: printable(without(text(fields["title"]), secrets), maxText),
		Contract: kind == "application/problem+json" && strings.TrimSpace(code) != "" && a.broken == nil,
	}
}

// refusal is the failure that the status means. One that ends the order must be in the contract's words: whatever else
// answers so, a proxy, a firewall, a platform's error page, does not know what became of the charge.
func (a answer) refusal(p problem, now time.Time) *failure.Error {
	reason := reasonOf(a.status, p.Code)
	final := failure.Hold.Fault(reason) == failure.OfMessage
	if a.broken != nil && (a.status/100 == 2 || final) {
		return a.broken
	}
	said := strings.TrimSpace(fmt.Sprintf("%d %s %s", a.status, p.Code, p.Title))
	if final && !p.Contract {
		return failure.New(failure.ProviderBadAnswer, "the provider answered %s, and no problem+json with a code: nothing is decided by that", said)
	}
	f := failure.New(reason, "the provider answered %s", said)
	if heedsRetryAfter(a.status) {
		f.RetryAfter = retryAfter(a.header.Get("Retry-After"), now)
	}
	return f
}

// successOf accepts a charge only if it is what was asked for.
func successOf(a answer, r billing.ChargeRequest) (billing.ProviderCharge, error) {
	if a.broken != nil {
		return billing.ProviderCharge{}, a.broken
	}
	charge, err := chargeOf(a.body)
	if err != nil {
		return billing.ProviderCharge{}, badAnswer(err)
	}
	if charge.Reference != r.Reference || charge.Amount != r.Amount {
		return billing.ProviderCharge{}, failure.New(failure.ProviderBadAnswer, "%w: %s of order %s was answered with %s of order %s",
			billing.ErrContradiction, r.Amount, r.Reference, charge.Amount, charge.Reference)
	}
	return charge, nil
}

// listOf reads the answer of a look-up. No "data" is not an empty list, and no "consistent" is not true.
func listOf(a answer) ([]billing.ProviderCharge, bool, error) {
	if a.broken != nil {
		return nil, false, a.broken
	}
	fields, err := object(a.body)
	if err != nil {
		return nil, false, badAnswer(err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(fields["data"], &items); err != nil || items == nil {
		return nil, false, badAnswer(errors.New("no list of charges"))
	}
	found := make([]billing.ProviderCharge, len(items))
	for i, item := range items {
		if found[i], err = chargeOf(item); err != nil {
			return nil, false, badAnswer(err)
		}
	}
	return found, string(fields["consistent"]) == "true", nil
}

func badAnswer(err error) *failure.Error {
	return failure.New(failure.ProviderBadAnswer, "the provider's answer is not a charge: %w", err)
}

// chargeOf reads a charge in the form of the contract. Errors name fields, never values.
func chargeOf(data []byte) (billing.ProviderCharge, error) {
	fields, err := object(data)
	if err != nil {
		return billing.ProviderCharge{}, err
	}
	var c billing.ProviderCharge
	if c.ID = visible(text(fields["id"])); c.ID == "" {
		return c, errors.New("no id")
	}
	reference := text(fields["reference"])
	if c.Reference, err = uuid.Parse(reference); err != nil || c.Reference.String() != reference {
		return c, errors.New("the reference is not an order id")
	}
	amount := text(fields["amount"])
	if c.Amount, err = billing.ParseMoney(amount, text(fields["currency"])); err != nil || c.Amount.Decimal() != amount {
		return c, errors.New("amount and currency are not an exact amount")
	}
	if text(fields["status"]) != "succeeded" {
		return c, errors.New("the status is not succeeded")
	}
	// A charge is not doubted for its date: money has moved, and nothing is decided by it.
	c.CreatedAt, _ = time.Parse(time.RFC3339Nano, text(fields["created_at"]))
	return c, nil
}
