package providersim

import (
	"fmt"
	"strconv"
	"strings"
)

// Rule lets a share of requests, or of orders, meet a kind of fault.
type Rule struct {
	Kind  Kind
	Share float64 // 0 to 1
	First int     // 0: of all requests. n: the first n requests of that share of orders. EveryRequest: each of theirs
}

// EveryRequest in Rule.First makes the orders of the share fail always.
const EveryRequest = -1

// ParseRules reads "kind=share" (of requests), "kind@n=share" (the first n requests of a share of orders) and
// "kind@*=share" (each request of a share of orders), separated by commas: "500after=0.02,503@2=0.1,402@*=0.03".
func ParseRules(text string) ([]Rule, error) {
	var rules []Rule
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		rule, err := parseRule(part)
		if err != nil {
			return nil, fmt.Errorf("providersim: fault %q: %w", part, err)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func parseRule(part string) (r Rule, err error) {
	name, share, _ := strings.Cut(part, "=")
	kind, first, ofOrders := strings.Cut(name, "@")
	r.Kind = Kind(kind)
	if r.Share, err = strconv.ParseFloat(share, 64); err != nil {
		return r, fmt.Errorf("the share %q is not a number, want kind=0.1, kind@2=0.1 or kind@*=0.1", share)
	}
	switch {
	case first == "*":
		r.First = EveryRequest
	case ofOrders:
		if r.First, err = strconv.Atoi(first); err != nil || r.First < 1 {
			return r, fmt.Errorf("%q is no count of requests, want 1 or more, or *", first)
		}
	}
	return r, nil
}

// plan decides each request's fate from the seed, the order and the request's number, and from nothing else.
type plan struct {
	seed          uint64
	orders, asked []Rule
}

func newPlan(seed uint64, rules []Rule) (plan, error) {
	p := plan{seed: seed}
	var ofOrders, ofRequests float64
	for _, r := range rules {
		if !r.Kind.forRules() {
			return p, fmt.Errorf("providersim: kind %q is unknown, want a status from 300 to 599 or one of %v", r.Kind, Kinds())
		}
		if !(r.Share >= 0 && r.Share <= 1) || r.First < EveryRequest {
			return p, fmt.Errorf("providersim: the rule for %s has share %v and first %d, want 0 to 1 and at least %d", r.Kind, r.Share, r.First, EveryRequest)
		}
		if r.First == 0 {
			p.asked, ofRequests = append(p.asked, r), ofRequests+r.Share
		} else {
			p.orders, ofOrders = append(p.orders, r), ofOrders+r.Share
		}
	}
	if ofOrders > 1 || ofRequests > 1 {
		return p, fmt.Errorf("providersim: shares add up to %v of orders and %v of requests, want at most 1 each", ofOrders, ofRequests)
	}
	return p, nil
}

// fate is how the n-th request of an order is treated, counted from 1. An order belongs to at most one rule of orders;
// when that has passed, nothing else happens to the order, so that a demo's orders end as planned.
func (p plan) fate(reference string, n int) Kind {
	if r := pick(p.orders, dice(p.seed, reference, 0)); r != nil {
		if r.First == EveryRequest || n <= r.First {
			return r.Kind
		}
		return OK
	}
	if r := pick(p.asked, dice(p.seed, reference, n)); r != nil {
		return r.Kind
	}
	return OK
}

// pick is the rule whose part of [0, 1) the number falls into.
func pick(rules []Rule, x float64) *Rule {
	for i := range rules {
		if x -= rules[i].Share; x < 0 {
			return &rules[i]
		}
	}
	return nil
}

// dice is a number in [0, 1) that belongs to an order's request: FNV-1a, finished like splitmix64.
func dice(seed uint64, reference string, n int) float64 {
	h := uint64(14695981039346656037)
	for i := range len(reference) {
		h = (h ^ uint64(reference[i])) * 1099511628211
	}
	h ^= seed*0x9e3779b97f4a7c15 + uint64(n)*0xd1342543de82ef95
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return float64((h^h>>31)>>11) / (1 << 53)
}
