// Package postgres runs a PostgreSQL server for `billing demo` and for the tests, on a machine that has none.
//
// It promises a server that listens on 127.0.0.1 only, is ready in under two seconds once its binaries are cached, and
// dies with the process that started it, even one that was killed. It never runs as root: started by root, the server
// gets the user nobody. It is no server for real money: unless Config.Sync is set, its data may be gone after a
// crash of the machine (not of a process).
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
)

// Config says where the server lives.
type Config struct {
	Dir  string       // kept between runs; empty: a temporary one, removed when the server stops
	Port int          // 0: a free one
	Log  *slog.Logger // nil: silent
	Sync bool         // commits survive a crash of the machine, as in production; slower
}

// Server is a running PostgreSQL.
type Server struct {
	URL string // of the empty database `billing`

	process *process
	lock    io.Closer
}

// Start runs a server and returns when it answers. The first start on a machine downloads PostgreSQL (some 30 MB) into
// the user's cache directory. One directory serves one process at a time; a server left there by a killed one is stopped.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Port < 0 || cfg.Port > 65535 {
		return nil, fmt.Errorf("start PostgreSQL: port %d is not one", cfg.Port)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	installed, err := install(ctx, cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("%w (or set BILLING_DATABASE_URL to a PostgreSQL of your own)", err)
	}
	dir, temporary, err := home(cfg.Dir)
	if err != nil {
		return nil, err
	}
	lock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	server, err := start(ctx, installed, dir, cfg, temporary)
	if err != nil {
		if temporary {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return nil, errors.Join(err, lock.Close())
	}
	server.lock = lock
	return server, nil
}

// Stop ends the server and its connections, and waits for it.
func (s *Server) Stop() error {
	return errors.Join(s.process.stop(), s.lock.Close())
}

// home makes the directory that holds data and log, as the user that the server will run as.
func home(dir string) (path string, temporary bool, err error) {
	if dir == "" {
		path, err = os.MkdirTemp("", "billing-postgres-")
		temporary = true
	} else if path, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(path, 0o755)
	}
	if err == nil {
		err = giveAway(path)
	}
	if err != nil {
		return "", false, fmt.Errorf("make the directory of the PostgreSQL server: %w", err)
	}
	return path, temporary, nil
}

func start(ctx context.Context, installed installation, dir string, cfg Config, temporary bool) (*Server, error) {
	data := filepath.Join(dir, "data")
	if err := unprivileged(func() error { return prepare(ctx, installed, data) }); err != nil {
		return nil, err
	}
	if cfg.Port == 0 {
		var err error
		if cfg.Port, err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	p, err := launch(ctx, installed, dir, cfg, temporary)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", user, password, cfg.Port, database)
	if err := p.ready(ctx, url); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return &Server{URL: url, process: p}, nil
}

// prepare leaves a data directory that no server works on.
func prepare(ctx context.Context, installed installation, data string) error {
	if _, err := os.Stat(filepath.Join(data, "postmaster.pid")); err == nil {
		// We hold the lock, so whoever started this server is dead. Without a process behind it the file is harmless
		// and pg_ctl fails.
		_ = installed.command(ctx, "pg_ctl", "stop", "-D", data, "-m", "fast").Run()
	}
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	if err := copyTemplate(installed.template, data); err != nil {
		return fmt.Errorf("lay out the data directory of PostgreSQL: %w", err)
	}
	return nil
}

// copyTemplate writes beside the target and renames, so that an interrupted copy is never taken for a database.
func copyTemplate(template, data string) error {
	half := data + ".new"
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	if err := os.CopyFS(half, os.DirFS(template)); err != nil {
		return err
	}
	if err := os.Chmod(half, 0o700); err != nil { // the server refuses a directory that others may read
		return err
	}
	return os.Rename(half, data)
}

// freePort asks the kernel. Another process could take the port before the server does; it then fails and says so.
func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil //nolint:errcheck // a TCP listener has no other address
}
