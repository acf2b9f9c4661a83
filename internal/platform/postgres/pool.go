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
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config of a pool. Whatever the URL itself sets (application_name, statement_timeout, …) is kept.
type Config struct {
	URL      string
	MaxConns int
}

// connectTimeout is below every wait for a connection, so that a server that does not answer is told from a pool that is
// used up.
const connectTimeout = 3 * time.Second

// sessionSettings are in force on every connection. Plans are made for each execution: a cached one that was made while a
// table was still empty scanned it whole for minutes after it had grown.
var sessionSettings = map[string]string{
	"application_name":                    "billing",
	"lock_timeout":                        "1s",
	"statement_timeout":                   "5s",
	"idle_in_transaction_session_timeout": "5s",
	"plan_cache_mode":                     "force_custom_plan",
	"timezone":                            "UTC",
}

// Open makes a pool and reaches the server once.
func Open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	pc, err := poolConfig(cfg)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := Ping(ctx, pool); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open database: %w", err)
	}
	return pool, nil
}

func poolConfig(cfg Config) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, errURL
	}
	if cfg.MaxConns <= 0 {
		return nil, errors.New("open database: MaxConns must be more than 0")
	}
	pc.MaxConns = int32(min(cfg.MaxConns, 1000))
	pc.ConnConfig.ConnectTimeout = connectTimeout
	for name, value := range sessionSettings {
		if _, given := pc.ConnConfig.RuntimeParams[name]; !given {
			pc.ConnConfig.RuntimeParams[name] = value
		}
	}
	if !strings.Contains(cfg.URL, "target_session_attrs") {
		pc.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return pc, nil
}

// errURL leaves the URL out: masking a password in a text that cannot be parsed is guesswork.
var errURL = errors.New("the database URL cannot be parsed, want postgres://user:password@host:5432/name")

// pingTimeout bounds a health check: an answer that comes later is no sign of health.
const pingTimeout = 2 * time.Second

// Ping reaches the server, or says why not.
func Ping(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+pingTimeout)
	defer cancel()
	return pool.Ping(ctx)
}
