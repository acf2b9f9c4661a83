// Package admin is the person's way in: health, metrics, and the HTTP API over dead letters, orders, the audit trail and the
// stop switch.
//
// It is closed by default: without tokens there is no /admin at all. Every unsafe call has an actor, a reason and an audit
// row. It never shows a payload to a viewer, an internal error to anyone, and never acts by itself. Limits: bodies of 1 MiB,
// and replays run within the call, so that one takes at most ReplayTimeout; what is left then is for the next call.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"example.com/billing/internal/audit"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/fleet"
)

// Config says where to listen and who may come in. Zero durations take their defaults.
type Config struct {
	Addr          string
	PrivateAddr   string   // when set, metrics are here only, and the profiles of the process
	DeadLetters   string   // the dead-letter topic
	Tokens        []Token  // none: no admin surface, only health and metrics
	ShowHeaders   []string // of producers, that every role may see
	CheckTimeout  time.Duration
	ReplayTimeout time.Duration
	CallLease     time.Duration // how long a call with an Idempotency-Key whose process died keeps it
	StopTimeout   time.Duration
}

// Deps are what the server shows and acts through.
type Deps struct {
	Pool     *pgxpool.Pool
	Letters  *deadletter.List
	Records  *deadletter.Records
	Replayer *deadletter.Replayer
	Parts    []Part // of the readiness
	Metrics  prometheus.Gatherer
	Clock    func() time.Time
	Log      *slog.Logger
}

// Server answers HTTP.
type Server struct {
	cfg         Config
	deps        Deps
	audit       *audit.Log
	history     history
	answers     answers
	consumption *fleet.Switch
	failures    *rate.Limiter
	echo        *echo.Echo
	listener    net.Listener
	private     net.Listener // nil: there is none
}

// New checks the settings and takes the port, so that a port in use fails the start. Run serves; without it, Close.
func New(cfg Config, deps Deps) (*Server, error) {
	if deps.Pool == nil || deps.Letters == nil || deps.Records == nil || deps.Replayer == nil || deps.Metrics == nil || deps.Clock == nil || deps.Log == nil {
		return nil, errors.New("admin: pool, letters, records, replayer, metrics, clock and log are required")
	}
	setDefault(&cfg.CheckTimeout, 2*time.Second)
	setDefault(&cfg.ReplayTimeout, 2*time.Minute)
	setDefault(&cfg.CallLease, 15*time.Second)
	setDefault(&cfg.StopTimeout, 5*time.Second)
	s := &Server{
		cfg: cfg, deps: deps, audit: audit.New(deps.Pool), history: history{deps.Pool}, answers: answers{deps.Pool, cfg.CallLease, deps.Log},
		consumption: fleet.NewSwitch(deps.Pool), failures: rate.NewLimiter(1, 10), echo: echo.New(),
	}
	s.register()
	var err error
	if s.listener, err = listen(cfg.Addr); err != nil {
		return nil, err
	}
	if cfg.PrivateAddr == "" {
		return s, nil
	}
	if s.private, err = listen(cfg.PrivateAddr); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	return s, nil
}

func listen(address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("admin: listen on %q: %w", address, err)
	}
	return l, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Routes are all calls that are answered, as "METHOD /path/{parameter}".
func (s *Server) Routes() []string {
	var all []string
	for _, r := range s.echo.Routes() {
		parts := strings.Split(r.Path, "/")
		for i, part := range parts {
			if name, ok := strings.CutPrefix(part, ":"); ok {
				parts[i] = "{" + name + "}"
			}
		}
		all = append(all, r.Method+" "+strings.Join(parts, "/"))
	}
	return all
}

// PrivateAddr is where metrics and profiles are; empty: there is no private address.
func (s *Server) PrivateAddr() string {
	if s.private == nil {
		return ""
	}
	return s.private.Addr().String()
}

// Close gives the ports back when Run was never called.
func (s *Server) Close() error {
	if s.private == nil {
		return s.listener.Close()
	}
	return errors.Join(s.listener.Close(), s.private.Close())
}

// Run serves until the context ends, then lets running requests finish within StopTimeout.
func (s *Server) Run(ctx context.Context) error {
	public := s.newHTTP(s.echo, 30*time.Second)
	private := s.newHTTP(s.privateHandler(), longestProfile)
	served := make(chan error, 2)
	go func() { served <- public.Serve(s.listener) }()
	if s.private != nil {
		go func() { served <- private.Serve(s.private) }()
	}
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("admin: serve: %w", err), public.Close(), private.Close())
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopTimeout)
	defer cancel()
	cut := private.Close() // a profile of two minutes must not delay the stop
	if err := public.Shutdown(stop); err != nil {
		return errors.Join(fmt.Errorf("admin: requests cut off at the stop: %w", err), public.Close(), cut)
	}
	return cut
}

func (s *Server) newHTTP(h http.Handler, write time.Duration) *http.Server {
	return &http.Server{
		Handler:           answerHead(h),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      write,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelDebug),
	}
}
