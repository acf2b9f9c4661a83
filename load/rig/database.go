package rig

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/demo/postgres"
)

// Database is a Postgres: an own server, or an own database on a given one.
type Database struct {
	URL   string // past all links
	admin string // of another database of the server
	name  string

	dir    string // of the own server
	port   int
	server *postgres.Server // nil: a given one
}

// StartDatabase starts a server that can be crashed.
func StartDatabase(ctx context.Context, dir string) (*Database, error) {
	addr, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	d := &Database{dir: filepath.Join(dir, "postgres"), name: "billing"}
	if d.port, err = strconv.Atoi(text); err != nil {
		return nil, err
	}
	if err := d.Start(ctx); err != nil {
		return nil, err
	}
	d.URL, d.admin = d.server.URL, withDatabase(d.server.URL, "postgres")
	return d, nil
}

// OpenDatabase makes a database on a server that another one of its databases gives access to. Its server cannot be crashed.
func OpenDatabase(ctx context.Context, admin, prefix string) (*Database, error) {
	d := &Database{admin: admin, name: prefix + strings.ToLower(rand.Text()[:10])}
	d.URL = withDatabase(admin, d.name)
	return d, d.exec(ctx, "CREATE DATABASE "+d.name)
}

func withDatabase(address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // and connecting to it says what is wrong
	}
	u.Path = "/" + name
	return u.String()
}

// Start starts the own server, on the data that it has.
func (d *Database) Start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	d.server, err = postgres.Start(ctx, postgres.Config{Dir: d.dir, Port: d.port})
	return err
}

// Crash ends the server without a shutdown: the next start recovers from the log.
func (d *Database) Crash() error {
	pid, err := d.postmaster()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return fmt.Errorf("crash Postgres: %w", err)
	}
	return d.server.Stop()
}

func (d *Database) postmaster() (int, error) {
	file, err := os.Open(filepath.Join(d.dir, "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	line, err := bufio.NewReader(file).ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// Terminate ends all sessions of the service.
func (d *Database) Terminate(ctx context.Context) error {
	return d.exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'billing' AND datname = '"+d.name+"'")
}

// ReadOnly is what a demoted primary looks like: new sessions can only read, old ones are gone.
func (d *Database) ReadOnly(ctx context.Context, on bool) error {
	set := "ALTER DATABASE " + d.name + " RESET default_transaction_read_only"
	if on {
		set = "ALTER DATABASE " + d.name + " SET default_transaction_read_only = on"
	}
	if err := d.exec(ctx, set); err != nil {
		return err
	}
	if !on {
		return nil // the service must find out by itself
	}
	return d.Terminate(ctx)
}

// Exec runs statements in the database itself.
func (d *Database) Exec(ctx context.Context, sql string) error { return execAt(ctx, d.URL, sql) }

func (d *Database) exec(ctx context.Context, sql string) error { return execAt(ctx, d.admin, sql) }

func execAt(ctx context.Context, address, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// describePostgres is what a reader of figures must know of a server.
func describePostgres(ctx context.Context, address string) (string, error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var version, fsync, synchronous string
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&version, &fsync, &synchronous)
	return fmt.Sprintf("Postgres %s (fsync %s, synchronous_commit %s)", version, fsync, synchronous), err
}

// Close stops the own server, or drops the database.
func (d *Database) Close() error {
	if d.server != nil {
		return d.server.Stop()
	}
	return d.exec(context.Background(), "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
}
