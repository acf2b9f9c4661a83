package httpprovider

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"example.com/billing/internal/billing"
)

// maxPage is what a page may have: five times what a thousand plain charges have.
const maxPage = 1 << 20 // bytes

// List is a page of at most limit charges that were made in [from, to), oldest first. The first page has no cursor; after
// the last one next is empty. A page larger than we take is billing.ErrTooLarge. Errors are those of a look-up: *failure.Error, and no money has moved.
func (c *Client) List(ctx context.Context, from, to time.Time, cursor string, limit int) (page []billing.ListedCharge, next string, err error) {
	a, err := c.exchange(ctx, c.listRequest(from, to, cursor, limit), c.cfg.Clock().Add(c.cfg.Timeout), maxPage)
	if err == nil && a.status != http.StatusOK {
		err = a.refusal(a.problem(c.cfg.Token), c.cfg.Clock())
	}
	if err == nil {
		page, next, err = pageOf(a)
	}
	if err != nil {
		return nil, "", ofLookUp(err)
	}
	return page, next, nil
}

func (c *Client) listRequest(from, to time.Time, cursor string, limit int) *http.Request {
	q := url.Values{
		"from": {from.UTC().Format(time.RFC3339Nano)}, "to": {to.UTC().Format(time.RFC3339Nano)}, "limit": {strconv.Itoa(limit)},
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	u := *c.charges
	u.RawQuery = q.Encode()
	return &http.Request{Method: http.MethodGet, URL: &u, Header: c.header}
}

// pageOf reads a page. A list that ends too early would make charges look as if they were missing, so its end must be
// spelt out: next_cursor is a text, or null.
func pageOf(a answer) ([]billing.ListedCharge, string, error) {
	if a.broken != nil {
		return nil, "", a.broken
	}
	fields, err := object(a.body)
	if err != nil {
		return nil, "", badAnswer(err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(fields["data"], &items); err != nil || items == nil {
		return nil, "", badAnswer(errors.New("no list of charges"))
	}
	next := text(fields["next_cursor"])
	if next == "" && string(fields["next_cursor"]) != "null" {
		return nil, "", badAnswer(errors.New("the list does not say whether it ends"))
	}
	page := make([]billing.ListedCharge, len(items))
	for i, item := range items {
		if page[i], err = listed(item); err != nil {
			return nil, "", badAnswer(err)
		}
	}
	return page, next, nil
}

// listed reads one entry. Its date must be readable: pages are compared by it.
func listed(item json.RawMessage) (billing.ListedCharge, error) {
	fields, err := object(item)
	if err != nil {
		return billing.ListedCharge{}, err
	}
	created, err := time.Parse(time.RFC3339Nano, text(fields["created_at"]))
	if err != nil {
		return billing.ListedCharge{}, errors.New("created_at is not a time")
	}
	charge, err := chargeOf(item)
	if err != nil {
		charge = billing.ProviderCharge{ID: visible(text(fields["id"])), CreatedAt: created}
		return billing.ListedCharge{ProviderCharge: charge, Problem: err.Error()}, nil //nolint:nilerr // one odd entry must not hide the page
	}
	return billing.ListedCharge{ProviderCharge: charge}, nil
}
