// Package postgres opens the database and knows whether its schema fits the binary.
//
// Every connection that it opens gives up in time: a lock, a statement and an idle transaction each have a limit, so that
// one stuck session cannot stop the service. It changes the schema only when asked to (Migrate), never at a start, and it
// knows no table but the list of migrations.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config of a pool. What the URL itself sets (application_name, statement_timeout, …) is kept, unless a charge could be lost
// by it: that is refused. Our session settings go before its options=-c ….
type Config struct {
	URL      string
	MaxConns int
	Wait     time.Duration // how long to wait for a server that does not answer yet; 0: not at all
	Log      *slog.Logger  // needed with Wait
}

// connectTimeout is below every wait for a connection, so that a server that does not answer is told from a pool that is
// used up.
const connectTimeout = 3 * time.Second

// sessionSettings are in force on every connection, also where the account, the database or the server is set up otherwise.
//
// A commit that is not on the disk yet is forgotten when the server crashes, and with it a charge. Every statement is
// written for "read committed". Plans are made for each execution: a cached one that was made while a table was still empty
// scanned it whole for minutes after it had grown.
var sessionSettings = map[string]string{
	"application_name":                    "billing",
	"lock_timeout":                        "1s",
	"statement_timeout":                   "5s",
	"idle_in_transaction_session_timeout": "5s",
	"plan_cache_mode":                     "force_custom_plan",
	"timezone":                            "UTC",
	"synchronous_commit":                  "on",
	"default_transaction_isolation":       "read committed",
}

func poolConfig(cfg Config) (*pgxpool.Config, error) {
	forgetVariables()
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, badURL(err)
	}
	if cfg.MaxConns <= 0 {
		return nil, errors.New("open database: MaxConns must be more than 0")
	}
	pc.MaxConns = int32(min(cfg.MaxConns, 1000))
	pc.ConnConfig.ConnectTimeout = connectTimeout
	addSessionSettings(pc.ConnConfig.RuntimeParams)
	if !strings.Contains(cfg.URL, "target_session_attrs") {
		pc.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return pc, nil
}

// addSessionSettings keeps what the URL gives, in whatever case it writes the name.
func addSessionSettings(params map[string]string) {
	given := map[string]bool{}
	for name := range params {
		given[strings.ToLower(name)] = true
	}
	for name, value := range sessionSettings {
		if !given[name] {
			params[name] = value
		}
	}
}

// forgetVariables removes PGHOST, PGSSLMODE, PGSERVICE and the like from this process's environment: a driver would add them to
// what the URL says, and a stray one would lead to another database or without TLS.
func forgetVariables() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // it fails for names that cannot be set either
		}
	}
}

// badURL leaves the URL out: masking a password in a text that cannot be parsed is guesswork. A file that the URL names is
// told, since its name is not secret.
func badURL(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("the database URL names a file that cannot be read: %s: %w", file.Path, file.Err)
	}
	return errors.New("the database URL cannot be parsed, want postgres://user:password@host:5432/name")
}

// pingTimeout bounds a health check: an answer that comes later is no sign of health.
const pingTimeout = 2 * time.Second

// Ping reaches the server, or says why not.
func Ping(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+pingTimeout)
	defer cancel()
	return pool.Ping(ctx)
}
