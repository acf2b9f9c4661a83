package providersim

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	pageSuffix  = "-page"
	sickPrefix  = "sick-"
	somePrefix  = "some-"
	limitPrefix = "limit-"

	sickOf    = 3    // nodes behind the balancer, of which one is sick
	someShare = 0.01 // of the requests
	burst     = 10   // a rate limit saves up a tenth of a second
)

// Status answers each request with a status from 300 to 599 and a problem. 402 is Decline, which is final for the key.
func Status(status int) Kind { return Kind(strconv.Itoa(status)) }

// Page is Status with an HTML page, as a proxy or a platform answers in the provider's place.
func Page(status int) Kind { return Status(status) + pageSuffix }

// Sick is a mode: one of three nodes answers with the status, and a connection stays with its node.
func Sick(status int) Kind { return sickPrefix + Status(status) }

// Some is a mode: one charge in a hundred is answered with the status.
func Some(status int) Kind { return somePrefix + Status(status) }

// Limit is a mode: so many charges a second are taken, and 429 answers what is beyond.
func Limit(perSecond int) Kind { return Kind(limitPrefix + strconv.Itoa(perSecond)) }

// modesWanted says what SetMode takes, for errors.
func modesWanted() string {
	return fmt.Sprintf("%s, %s, a status from 300 to 599 (also as 402%s, %s401, %s429), %s500, or one of %v",
		OK, Unsure, pageSuffix, sickPrefix, somePrefix, limitPrefix, Kinds())
}

// status is the status of a kind that Status or Page made. Decline is none: it looks at the key first.
func (k Kind) status() (int, bool) {
	n, err := strconv.Atoi(strings.TrimSuffix(string(k), pageSuffix))
	return n, err == nil && n >= 300 && n <= 599 && k != Decline
}

// outage is a mode for a while.
type outage struct {
	kind  Kind
	until time.Time // zero: until another one is set

	sick, some Kind    // of one connection in three, of one charge in a hundred; empty for none
	limit      *bucket // nil: no limit
}

// newOutage reads the kinds that only a mode can be.
func newOutage(k Kind, until, now time.Time) (*outage, error) {
	o := &outage{kind: k, until: until}
	sick, isSick := strings.CutPrefix(string(k), sickPrefix)
	some, isSome := strings.CutPrefix(string(k), somePrefix)
	rate, isLimit := strings.CutPrefix(string(k), limitPrefix)
	valid := k == OK || k == Unsure || k.forRules()
	switch {
	case isSick:
		o.kind, o.sick = OK, Kind(sick)
		_, valid = o.sick.status()
	case isSome:
		o.kind, o.some = OK, Kind(some)
		_, valid = o.some.status()
	case isLimit:
		n, err := strconv.Atoi(rate)
		o.kind, o.limit = OK, &bucket{rate: float64(n), last: now}
		valid = err == nil && n > 0
	}
	if !valid {
		return nil, fmt.Errorf("providersim: mode %q is unknown, want %s", k, modesWanted())
	}
	return o, nil
}

// forConnection is the kind that everything on a connection meets. A connection leads to one node, and its address tells
// which one.
func (o *outage) forConnection(remote string) Kind {
	if o.sick == "" {
		return o.kind
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(remote))
	if h.Sum32()>>8%sickOf == 0 {
		return o.sick
	}
	return OK
}

// forCharge is the kind that a charge meets beyond that: number says where in [0, 1) it falls.
func (o *outage) forCharge(number float64, now time.Time) Kind {
	switch {
	case o.some != "" && number < someShare:
		return o.some
	case o.limit != nil && !o.limit.take(now):
		return Status429
	default:
		return OK
	}
}

// bucket is a rate limit: it fills at a rate, and each charge takes one out.
type bucket struct {
	rate float64

	mu   sync.Mutex
	full float64
	last time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = min(max(1, b.rate/burst), b.full+b.rate*now.Sub(b.last).Seconds())
	b.last = now
	if b.full < 1 {
		return false
	}
	b.full--
	return true
}

// page answers as a proxy or a platform does that speaks in the provider's place.
func (s *Server) page(w http.ResponseWriter, status int) {
	s.count(strconv.Itoa(status))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<html><h1>%s</h1></html>", http.StatusText(status))
}

// busy hangs at the first request of a key, and says of its repetitions that they are being worked on.
func (s *Server) busy(w http.ResponseWriter, r *http.Request) {
	if _, again := s.hung.LoadOrStore(r.Header.Get("Idempotency-Key"), true); again {
		s.problem(w, http.StatusConflict, "idempotency_key_in_use")
		return
	}
	s.hang(r)
}
