// Package providersim is a billing provider that keeps the provider's contract and fails on purpose.
//
// It promises two things. Its ledger counts how often money moved for each order, whatever its clients believe. And one
// seed gives each request of an order the same fate in every run, however requests interleave. It never moves money for
// a request outside the contract's form, and it keeps everything in memory: it is for demos and tests.
package providersim

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how the provider behaves.
type Config struct {
	Token     string        // bearer token asked for; none when empty
	Latency   time.Duration // work of a charge
	Jitter    time.Duration // up to this much is added
	SlowFor   time.Duration // added for the kind "slow"; 15 s when 0
	KeyTTL    time.Duration // how long a key is remembered; 24 h when 0
	LookupLag time.Duration // charges younger than this are not found, and look-ups say so
	Seed      uint64
	Rules     []Rule
	Clock     func() time.Time // time.Now when nil
}

// Server is the provider. Serve its Handler.
type Server struct {
	cfg    Config
	plan   plan
	book   *book
	mode   atomic.Pointer[outage]
	closed chan struct{}
	close  func()

	requests, replays, lookups, inflight, peak atomic.Int64

	hung sync.Map // keys that met Busy

	mu       sync.Mutex
	statuses map[string]int64
}

// New checks the rules and makes a provider that has charged nobody.
func New(cfg Config) (*Server, error) {
	if cfg.Latency < 0 || cfg.Jitter < 0 || cfg.SlowFor < 0 || cfg.KeyTTL < 0 || cfg.LookupLag < 0 {
		return nil, errors.New("providersim: a duration is negative")
	}
	plan, err := newPlan(cfg.Seed, cfg.Rules)
	if err != nil {
		return nil, err
	}
	if cfg.SlowFor == 0 {
		cfg.SlowFor = 15 * time.Second
	}
	if cfg.KeyTTL == 0 {
		cfg.KeyTTL = 24 * time.Hour
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	closed := make(chan struct{})
	return &Server{
		cfg: cfg, plan: plan, book: newBook(cfg.KeyTTL), statuses: map[string]int64{},
		closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}, nil
}

// Close ends requests that hang or work slowly. It does not close listeners.
func (s *Server) Close() { s.close() }

// SetMode lets every request meet one kind of fault until an instant, or until the next mode when that is zero. OK ends it.
func (s *Server) SetMode(k Kind, until time.Time) error {
	o, err := newOutage(k, until, s.cfg.Clock())
	if err == nil {
		s.mode.Store(o)
	}
	return err
}

// Handler serves the API, and beside it what a demo needs: POST /_control and GET /_ledger/summary, /_ledger/all.
func (s *Server) Handler() http.Handler {
	api := http.NewServeMux()
	api.HandleFunc("POST /v1/charges", s.charge)
	api.HandleFunc("GET /v1/charges", s.list)
	api.HandleFunc("GET /v1/charges/{id}", s.byID)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_control", s.control)
	mux.HandleFunc("GET /_ledger/summary", s.summaryPage)
	mux.HandleFunc("GET /_ledger/all", s.ledgerPage)
	mux.Handle("GET /healthz", s.during(http.HandlerFunc(healthz)))
	mux.Handle("/", s.during(s.authorized(api)))
	return mux
}

// during lets an outage answer in place of the API, before anything is looked at, as a broken provider does.
func (s *Server) during(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.requests.Add(1)
		}
		k := s.outage().forConnection(r.RemoteAddr)
		if k.before() && (k != Busy || r.Method == http.MethodPost) { // a look-up has no key to be busy with
			s.misbehave(w, r, k)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// outage is the mode that holds now.
func (s *Server) outage() *outage {
	o := s.mode.Load()
	if o == nil || !o.until.IsZero() && !s.cfg.Clock().Before(o.until) {
		return &outage{kind: OK}
	}
	return o
}

func (s *Server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s.cfg.Token != "" && (!bearer || token != s.cfg.Token) {
			s.problem(w, http.StatusUnauthorized, "unauthorized")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("ok\n"))
}
