package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migration is one step of the schema.
type Migration struct {
	Version   int64
	File      string
	AppliedAt time.Time // zero: pending
}

// Migrate applies what is pending and returns it. Two that run at once do it one after the other: a session lock in the
// database lets the second find nothing to do.
func Migrate(ctx context.Context, url string, files fs.FS) ([]Migration, error) {
	var done []Migration
	err := withProvider(ctx, url, files, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			done = append(done, Migration{Version: r.Source.Version, File: r.Source.Path, AppliedAt: time.Now()})
		}
		return err
	})
	return done, err
}

// Status lists all migrations, applied and pending.
func Status(ctx context.Context, url string, files fs.FS) ([]Migration, error) {
	var all []Migration
	err := withProvider(ctx, url, files, func(p *goose.Provider) error {
		statuses, err := p.Status(ctx)
		for _, s := range statuses {
			all = append(all, Migration{Version: s.Source.Version, File: s.Source.Path, AppliedAt: s.AppliedAt})
		}
		return err
	})
	return all, err
}

// withProvider uses a connection of its own, without the pool's limits: a migration may take its time.
func withProvider(ctx context.Context, url string, files fs.FS, use func(*goose.Provider) error) error {
	forgetVariables()
	cc, err := pgx.ParseConfig(url)
	if err != nil {
		return badURL(err)
	}
	if err := probe(ctx, cc); err != nil {
		return fmt.Errorf("migrate database: %w", &openError{err})
	}
	db := stdlib.OpenDB(*cc)
	p, err := newProvider(db, files)
	if err == nil {
		err = use(p)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	return nil
}

// probe reaches the server once, with the settings of the service's sessions. A pooler is refused: the lock of a migration
// belongs to its session.
func probe(ctx context.Context, cc *pgx.ConnConfig) error {
	cc = cc.Copy()
	for name, value := range sessionSettings {
		cc.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return err
	}
	return errors.Join(refusePooler(ctx, conn), conn.Close(ctx))
}

func newProvider(db *sql.DB, files fs.FS) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
}

// CheckSchema compares the database with the migrations in the binary. It writes nothing, so it needs no right to. A newer schema
// is only told of: migrations add and never take away, so that the release before works beside the new one, in a rolling
// deploy and after a roll-back.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool, files fs.FS, log *slog.Logger) error {
	want, err := newest(files)
	if err != nil {
		return err
	}
	have, err := applied(ctx, pool)
	switch {
	case err != nil:
		return fmt.Errorf("check schema: %w", err)
	case have < want:
		return fmt.Errorf("the database is at schema version %d, this binary needs %d: run `billing migrate up`", have, want)
	case have > want:
		log.Warn("a newer release has migrated the database: fine for a rolling deploy or a roll-back", "schema", have, "known", want)
	}
	return nil
}

func newest(files fs.FS) (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("no migrations in the binary: %w", errors.Join(err, fs.ErrNotExist))
	}
	var highest int64
	for _, name := range names {
		v, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", name, err)
		}
		highest = max(highest, v)
	}
	return highest, nil
}

// applied is the version of the database; 0 when it was never migrated.
func applied(ctx context.Context, pool *pgxpool.Pool) (version int64, err error) {
	err = pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == "42P01" { // no such table
		return 0, nil
	}
	return version, err
}
