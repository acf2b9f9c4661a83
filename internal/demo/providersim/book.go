package providersim

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Charge is money that moved.
type Charge struct {
	ID        string    `json:"id"`
	Reference string    `json:"reference"`
	Amount    string    `json:"amount"`
	Currency  string    `json:"currency"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"` // to the millisecond, never before the charge that came before

	at time.Time
}

// verdict is what the key of a request says.
type verdict int

const (
	fresh       verdict = iota // the key is ours to work on; finish must follow
	inUse                      // another request with it is being worked on
	reused                     // it was used with other content
	wasDeclined                // for good
	wasCharged                 // the same charge again
)

// entry is what is known of one key.
type entry struct {
	content content
	state   verdict
	charge  *Charge
	expires time.Time
}

// order is what is known of one reference.
type order struct {
	requests int
	asked    time.Time
	charges  []*Charge
}

// book remembers keys, orders and charges. One lock is enough: it is held for less than a microsecond at a time.
type book struct {
	ttl time.Duration

	mu      sync.Mutex
	keys    map[string]*entry
	orders  map[string]*order
	journal []*Charge // by CreatedAt, oldest first; a charge's id is its place
	charged int       // orders, once or more
	double  int       // orders, more than once
}

func newBook(ttl time.Duration) *book {
	return &book{ttl: ttl, keys: map[string]*entry{}, orders: map[string]*order{}}
}

// ask counts a request of an order and tells which one it is, from 1.
func (b *book) ask(reference string, now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.orders[reference]
	if o == nil {
		o = &order{asked: now}
		b.orders[reference] = o
	}
	o.requests++
	return o.requests
}

// begin looks the key up and takes it when it is free. A key past its time is forgotten: the same order would be charged
// once more, which is what the ledger then shows.
func (b *book) begin(key string, c content, now time.Time) (verdict, *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.keys[key]
	switch {
	case e == nil || e.state != inUse && now.After(e.expires):
		e = &entry{content: c, state: inUse, expires: now.Add(b.ttl)}
		b.keys[key] = e
		return fresh, e
	case e.content != c:
		return reused, e
	default:
		return e.state, e
	}
}

// decline ends work on a key without a charge.
func (b *book) decline(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.state = wasDeclined
}

// charge ends work on a key: money moves here and nowhere else.
func (b *book) charge(e *entry, now time.Time) *Charge {
	b.mu.Lock()
	defer b.mu.Unlock()
	created := now.UTC().Truncate(time.Millisecond)
	if n := len(b.journal); n > 0 && created.Before(b.journal[n-1].CreatedAt) {
		created = b.journal[n-1].CreatedAt
	}
	c := e.content
	e.charge = &Charge{
		ID: "ch_" + strconv.Itoa(len(b.journal)+1), Reference: c.reference, Amount: c.amount, Currency: c.currency,
		Status: "succeeded", CreatedAt: created, at: now,
	}
	e.state = wasCharged
	b.journal = append(b.journal, e.charge)
	o := b.orders[c.reference]
	o.charges = append(o.charges, e.charge)
	switch len(o.charges) {
	case 1:
		b.charged++
	case 2:
		b.double++
	}
	return e.charge
}

// ofOrder lists the charges of a reference that were made before an instant.
func (b *book) ofOrder(reference string, before time.Time) []*Charge {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := []*Charge{}
	if o := b.orders[reference]; o != nil {
		for _, c := range o.charges {
			if !c.at.After(before) {
				found = append(found, c)
			}
		}
	}
	return found
}

// byID finds a charge.
func (b *book) byID(id string) *Charge {
	digits, ok := strings.CutPrefix(id, "ch_")
	n, err := strconv.Atoi(digits)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok || err != nil || n < 1 || n > len(b.journal) || b.journal[n-1].ID != id {
		return nil
	}
	return b.journal[n-1]
}

// between lists charges created in [from, to), oldest first, from a place on; next is the place to go on from, 0 at the end.
func (b *book) between(from, to time.Time, place, limit int) (page []*Charge, next int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := func(at time.Time) int {
		return sort.Search(len(b.journal), func(i int) bool { return !b.journal[i].CreatedAt.Before(at) })
	}
	start, end := max(first(from), place), first(to)
	if start >= end {
		return []*Charge{}, 0
	}
	if end-start > limit {
		end = start + limit
		next = end
	}
	return slices.Clone(b.journal[start:end]), next
}
