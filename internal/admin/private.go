package admin

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// longestProfile is more than a CPU profile or a trace takes that somebody waits for.
const longestProfile = 2 * time.Minute

func (s *Server) metrics() http.Handler {
	return promhttp.HandlerFor(s.deps.Metrics, promhttp.HandlerOpts{Timeout: s.cfg.CheckTimeout})
}

// privateHandler serves what the public address must not show once there is a private one. The profiles are nowhere else:
// they tell what the process works on, and taking them costs it time.
func (s *Server) privateHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics())
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // heap, goroutine, …
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// answerHead answers HEAD as GET, on every address there is: the same status and headers, and the server leaves the body out.
func answerHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		get := r.Clone(ctx)
		get.Method = http.MethodGet
		next.ServeHTTP(headOnly{w, cancel}, get)
	})
}

// headOnly ends a stream with its first flush: the headers are out then, and nothing else will ever be.
type headOnly struct {
	http.ResponseWriter
	done context.CancelFunc
}

func (h headOnly) Flush() {
	_ = http.NewResponseController(h.ResponseWriter).Flush() // a writer that cannot has sent nothing yet
	h.done()
}

// Unwrap lets a handler reach the connection's deadlines.
func (h headOnly) Unwrap() http.ResponseWriter { return h.ResponseWriter }
