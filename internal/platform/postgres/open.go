package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// openAgain is how often a server that is not there yet is looked for.
const openAgain = time.Second

// Open makes a pool and reaches the server once. It waits for a server that does not answer yet, as after a restart of
// everything, but not for one that answers and refuses: that does not pass by itself.
func Open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	pc, err := poolConfig(cfg)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, &openError{err}
	}
	if err := reach(ctx, cfg, pool); err != nil {
		pool.Close()
		return nil, &openError{err}
	}
	return pool, nil
}

func reach(ctx context.Context, cfg Config, pool *pgxpool.Pool) error {
	for began := time.Now(); ; {
		err := Ping(ctx, pool)
		if err == nil {
			return refuseSessions(ctx, pool)
		}
		if waited := time.Since(began); refuses(err) || waited+openAgain > cfg.Wait {
			return err
		}
		cfg.Log.Warn("the database is not there yet, waiting for it", "error", (&openError{err}).Error())
		select {
		case <-ctx.Done():
			return err
		case <-time.After(openAgain):
		}
	}
}

func refuseSessions(ctx context.Context, pool *pgxpool.Pool) error {
	if err := refusePooler(ctx, pool); err != nil {
		return err
	}
	return refuseForgetful(ctx, pool)
}

// refuses reports whether the server answered, and what it said stays as it is until a person has changed something.
func refuses(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		class := pe.Code[:min(2, len(pe.Code))]
		return class == "28" || class == "3D" || pe.Code == "08P01" || class == "42" || class == "22"
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted || errors.Is(err, pgconn.ErrReadOnlyConnection) || refusesTLS(err)
}

// refusesTLS: the driver has no error of its own for it.
func refusesTLS(err error) bool {
	return strings.Contains(err.Error(), "server refused TLS connection")
}

var errPooler = errors.New("a connection pooler such as PgBouncer stands between, which does not pass on the settings of our sessions (lock_timeout, statement_timeout, …): connect to PostgreSQL itself")

// querier is a pool or a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// refusePooler makes sure that our sessions are what they say. A pooler that ignores start-up parameters gives sessions
// without any limit, and one that hands them to others between transactions loses prepared statements.
func refusePooler(ctx context.Context, db querier) error {
	names := make([]string, 0, len(sessionSettings))
	for name := range sessionSettings {
		names = append(names, name)
	}
	lost, err := readNames(ctx, db, `SELECT name FROM pg_settings WHERE lower(name) = ANY ($1) AND source <> 'client' ORDER BY name`, names)
	if err != nil {
		return err
	}
	lost = slices.DeleteFunc(lost, func(name string) bool { return name == "application_name" || strings.EqualFold(name, "timezone") }) // poolers set these themselves
	if len(lost) > 0 {
		return fmt.Errorf("%w (lost: %s)", errPooler, strings.Join(lost, ", "))
	}
	return nil
}

// openError tells why the database could not be opened. It repeats nothing of the URL but the address that was dialled: in a URL
// with a mistake, a part of the password may stand where the name of the database is expected.
type openError struct{ err error }

func (e *openError) Unwrap() error { return e.err }

func (e *openError) Error() string { return "open database: " + e.reason() }

func (e *openError) reason() string {
	pe, answered := errors.AsType[*pgconn.PgError](e.err)
	dial, dialled := errors.AsType[*net.OpError](e.err)
	lookup, named := errors.AsType[*net.DNSError](e.err)
	_, connecting := errors.AsType[*pgconn.ConnectError](e.err)
	switch {
	case answered && strings.Contains(pe.Message, "startup parameter"):
		return errPooler.Error() + " (it says: " + pe.Message + ")"
	case answered && strings.HasPrefix(pe.Code, "28"):
		return "the server refuses the account or its password: " + pe.Message + " (SQLSTATE " + pe.Code + ")"
	case answered && strings.HasPrefix(pe.Code, "3D"):
		return "the server has no such database: create it, or correct the name in the URL (SQLSTATE " + pe.Code + ")"
	case answered:
		return pe.Message + " (SQLSTATE " + pe.Code + ")"
	case errors.Is(e.err, pgconn.ErrReadOnlyConnection):
		return "the server is read-only: the address leads to a replica, or default_transaction_read_only is on"
	case refusesTLS(e.err):
		return "the server offers no TLS, and the URL asks for it (sslmode)"
	case named:
		return "the name of the host cannot be resolved: " + lookup.Err
	case dialled:
		return dial.Error()
	case errors.Is(e.err, context.DeadlineExceeded):
		return "no answer in time"
	case connecting:
		return "no connection: " + rootOf(e.err).Error()
	}
	return e.err.Error()
}

// rootOf is the error at the bottom: those above it repeat the URL.
func rootOf(err error) error {
	for below := errors.Unwrap(err); below != nil; below = errors.Unwrap(err) {
		err = below
	}
	return err
}
