package providersim

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Entry is what the ledger knows about an order.
type Entry struct {
	Reference    string
	Requests     int       // in the contract's form
	Charges      int       // how often money moved: 0 or 1 in a better world
	FirstAsked   time.Time // the first request
	FirstCharged time.Time // zero when it was not charged
	Amount       string    // of the first charge
	Currency     string
}

// Ledger is a snapshot of all orders that were asked for, by reference.
func (s *Server) Ledger() []Entry {
	entries := s.book.entries()
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Reference, b.Reference) })
	return entries
}

func (b *book) entries() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := make([]Entry, 0, len(b.orders))
	for reference, o := range b.orders {
		e := Entry{Reference: reference, Requests: o.requests, Charges: len(o.charges), FirstAsked: o.asked}
		if len(o.charges) > 0 {
			e.FirstCharged, e.Amount, e.Currency = o.charges[0].at, o.charges[0].Amount, o.charges[0].Currency
		}
		entries = append(entries, e)
	}
	return entries
}

// Summary is the ledger in short.
type Summary struct {
	Requests     int64            `json:"requests"` // POSTs, refused ones too
	Charged      int              `json:"charged"`  // orders, once or more
	Double       int              `json:"double"`   // orders, more than once
	Replays      int64            `json:"replays"`
	Lookups      int64            `json:"lookups"`
	Statuses     map[string]int64 `json:"statuses"` // answers to charges and refusals, also "reset", "hang", "garbage", "truncated"
	First        int64            `json:"first_ns"` // charge, in Unix nanoseconds; 0 when there is none
	Last         int64            `json:"last_ns"`
	Inflight     int64            `json:"inflight"`
	PeakInflight int64            `json:"peak_inflight"`
}

// Summary counts.
func (s *Server) Summary() Summary {
	sum := Summary{
		Requests: s.requests.Load(), Replays: s.replays.Load(), Lookups: s.lookups.Load(),
		Inflight: s.inflight.Load(), PeakInflight: s.peak.Load(),
	}
	s.mu.Lock()
	sum.Statuses = maps.Clone(s.statuses)
	s.mu.Unlock()
	b := s.book
	b.mu.Lock()
	defer b.mu.Unlock()
	sum.Charged, sum.Double = b.charged, b.double
	if n := len(b.journal); n > 0 {
		sum.First, sum.Last = b.journal[0].at.UnixNano(), b.journal[n-1].at.UnixNano()
	}
	return sum
}

func (s *Server) summaryPage(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Summary())
}

// ledgerPage lists the orders that were charged: reference, times charged, first charge, amount, currency, first request;
// separated by tabs, times in Unix nanoseconds.
func (s *Server) ledgerPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/tab-separated-values")
	out := bufio.NewWriter(w)
	defer out.Flush()
	for _, e := range s.Ledger() {
		if e.Charges > 0 {
			_, _ = fmt.Fprintf(out, "%s\t%d\t%d\t%s\t%s\t%d\n", e.Reference, e.Charges, e.FirstCharged.UnixNano(), e.Amount, e.Currency, e.FirstAsked.UnixNano())
		}
	}
}

// control serves POST /_control {"mode": "503", "for": "30s"}; without "for" the mode stays until the next one.
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Mode Kind   `json:"mode"`
		For  string `json:"for"`
	}
	err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&in)
	var until time.Time
	if err == nil && in.For != "" {
		var d time.Duration
		d, err = time.ParseDuration(in.For)
		until = s.cfg.Clock().Add(d)
	}
	if err == nil {
		err = s.SetMode(in.Mode, until)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf(`%v; want {"mode": …, "for": "30s"}, with %s`, err, modesWanted()), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
