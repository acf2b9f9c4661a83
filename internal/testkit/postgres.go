package testkit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver that the migrations run on
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/demo/postgres"
	"example.com/billing/migrations"
)

// Database is one test's own database, with the schema in place.
type Database struct {
	URL  string
	Pool *pgxpool.Pool
}

// Postgres makes a database and drops it after the test. The embedded server is started once per test binary and ends
// with it.
func Postgres(t testing.TB) *Database {
	t.Helper()
	NeedsServer(t)
	server, err := sharedServer()
	require.NoError(t, err, "no PostgreSQL to test with")
	name := "test_" + strings.ToLower(rand.Text()[:12])
	server.exec(t, "CREATE DATABASE "+name+" TEMPLATE "+server.template)
	return open(t, server, name)
}

// open opens a database that was made for the test.
func open(t testing.TB, server *server, name string) *Database {
	t.Helper()
	t.Cleanup(func() { server.exec(t, "DROP DATABASE "+name+" WITH (FORCE)") })

	config, err := pgxpool.ParseConfig(withDatabase(server.url, name))
	require.NoError(t, err)
	config.MaxConns = 32 // races need many at once
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &Database{URL: config.ConnString(), Pool: pool}
}

// Copy is the database as it is now, as a backup that is restored later. Nobody else may be working with it; its own pool
// connects anew.
func (d *Database) Copy(t testing.TB) *Database {
	t.Helper()
	server, err := sharedServer()
	require.NoError(t, err)
	from := d.Pool.Config().ConnConfig.Database
	name := from + "_" + strings.ToLower(rand.Text()[:6])
	d.Pool.Reset()
	server.exec(t, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '"+from+"'")
	server.exec(t, "CREATE DATABASE "+name+" TEMPLATE "+from)
	return open(t, server, name)
}

type server struct {
	url      string
	template string // a migrated database, to be copied
}

// sharedServer belongs to the process: the embedded server is never stopped here, it dies with its parent.
var sharedServer = sync.OnceValues(func() (*server, error) {
	ctx := context.Background()
	address := os.Getenv("BILLING_TEST_DATABASE_URL")
	if address == "" {
		embedded, err := postgres.Start(ctx, postgres.Config{})
		if err != nil {
			return nil, err
		}
		address = embedded.URL
	}
	template, err := prepareTemplate(ctx, address)
	return &server{url: address, template: template}, err
})

// prepareTemplate makes the migrated database unless another test binary has done so on the same server.
func prepareTemplate(ctx context.Context, address string) (name string, err error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", fmt.Errorf("connect to the test server: %w", err)
	}
	defer conn.Close(ctx) // and with it the advisory lock
	if name, err = templateName(); err != nil {
		return "", err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
		return "", fmt.Errorf("lock the template: %w", err)
	}
	var ready bool
	const isReady = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)"
	if err := conn.QueryRow(ctx, isReady, name).Scan(&ready); err != nil || ready {
		return name, err
	}
	// One that is not marked as a template was left half made.
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return "", fmt.Errorf("make the template: %w", err)
		}
	}
	if err := migrate(ctx, withDatabase(address, name)); err != nil {
		return "", fmt.Errorf("migrate the template: %w", err)
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" IS_TEMPLATE true ALLOW_CONNECTIONS false"); err != nil {
		return "", fmt.Errorf("mark the template: %w", err)
	}
	return name, nil
}

// templateName follows from the migrations, so that a changed one is never tested on an old schema.
func templateName() (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(migrations.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations.Files, path)
		fmt.Fprintf(hash, "%s %d %s", path, len(text), text)
		return err
	})
	return fmt.Sprintf("billing_template_%x", hash.Sum(nil)[:6]), err
}

func migrate(ctx context.Context, address string) error {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

func (s *server) exec(t testing.TB, statement string) {
	t.Helper()
	ctx := context.Background() // the test's own has ended when the clean-up runs
	conn, err := pgx.Connect(ctx, s.url)
	require.NoError(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	require.NoError(t, err)
}

func withDatabase(address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(fmt.Sprintf("BILLING_TEST_DATABASE_URL must be a URL: %v", err))
	}
	u.Path = "/" + name
	return u.String()
}
