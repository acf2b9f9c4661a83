package main

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

// database is the Postgres of a round: an own server, or an own database on a given one.
type database struct {
	url   string // of the round's database, for us
	admin string // of another database of the server
	name  string

	dir    string // of the own server
	port   int
	server *postgres.Server // nil: a given one
}

func startDatabase(ctx context.Context, dir string) (*database, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	d := &database{dir: filepath.Join(dir, "postgres"), name: "billing"}
	if d.port, err = strconv.Atoi(text); err != nil {
		return nil, err
	}
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	d.url, d.admin = d.server.URL, withDatabase(d.server.URL, "postgres")
	return d, nil
}

func openDatabase(ctx context.Context, admin string) (*database, error) {
	d := &database{admin: admin, name: "torture_" + strings.ToLower(rand.Text()[:10])}
	d.url = withDatabase(admin, d.name)
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

// through is the database's URL by way of a link.
func (d *database) through(addr string) string {
	u, err := url.Parse(d.url)
	if err != nil {
		return d.url
	}
	u.Host = addr
	return u.String()
}

// host is where the server listens.
func (d *database) host() (string, error) {
	u, err := url.Parse(d.url)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

func (d *database) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	d.server, err = postgres.Start(ctx, postgres.Config{Dir: d.dir, Port: d.port})
	return err
}

// crash ends the server without a shutdown: the next start recovers from the log.
func (d *database) crash() error {
	pid, err := d.postmaster()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return fmt.Errorf("crash Postgres: %w", err)
	}
	return d.server.Stop()
}

func (d *database) postmaster() (int, error) {
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

// terminate ends all sessions of the round's database but ours.
func (d *database) terminate(ctx context.Context) error {
	return d.exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'billing' AND datname = '"+d.name+"'")
}

// readOnly is what a demoted primary looks like: new sessions can only read, old ones are gone.
func (d *database) readOnly(ctx context.Context, on bool) error {
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
	return d.terminate(ctx)
}

func (d *database) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.admin)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

func (d *database) close() error {
	if d.server != nil {
		return d.server.Stop()
	}
	return d.exec(context.Background(), "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
}
