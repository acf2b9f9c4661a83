package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// settings make the server small and quiet.
var settings = []string{
	"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200", "shared_buffers=64MB", "max_wal_size=512MB", "log_checkpoints=off",
}

// quick damages the data only in a crash of the whole machine.
var quick = []string{"fsync=off", "full_page_writes=off"}

// guardScript ends the server when its standard input ends, which the kernel sees to however our process dies. It must
// outlive a Ctrl-C on the terminal.
const guardScript = `trap "" INT TERM HUP
cat >/dev/null
kill -INT "$1" 2>/dev/null
while kill -0 "$1" 2>/dev/null; do sleep 0.1; done
[ -z "$2" ] || rm -rf "$2"`

// stopPatience is how long a fast shutdown may take before the server is killed.
const stopPatience = 5 * time.Second

// process is the server and the shell that guards it.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the server has ended
	data   string        // its directory
	log    string        // its file
	guard  *exec.Cmd
	leash  io.Closer // the guard's standard input
}

func launch(ctx context.Context, installed installation, dir string, cfg Config, temporary bool) (*process, error) {
	p := &process{exited: make(chan struct{}), data: filepath.Join(dir, "data"), log: filepath.Join(dir, "postgres.log")}
	args := []string{"-D", p.data, "-p", strconv.Itoa(cfg.Port)}
	all := settings
	if !cfg.Sync {
		all = slices.Concat(settings, quick)
	}
	for _, s := range all {
		args = append(args, "-c", s)
	}
	// ctx bounds the start; the server outlives it. Its own process group keeps it from a Ctrl-C on the terminal.
	p.cmd = installed.command(context.WithoutCancel(ctx), "postgres", args...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := unprivileged(p.startServer); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	go p.wait()
	if err := p.startGuard(ctx, dir, temporary); err != nil {
		return nil, errors.Join(fmt.Errorf("guard PostgreSQL: %w", err), p.cmd.Process.Kill())
	}
	return p, nil
}

func (p *process) startServer() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	return p.cmd.Start()
}

func (p *process) wait() {
	_ = p.cmd.Wait() // how it ended is in its log
	close(p.exited)
}

func (p *process) startGuard(ctx context.Context, dir string, temporary bool) error {
	removes := ""
	if temporary {
		removes = dir
	}
	p.guard = exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", "-c", guardScript, "postgres-guard", strconv.Itoa(p.cmd.Process.Pid), removes)
	leash, err := p.guard.StdinPipe()
	if err != nil {
		return err
	}
	p.leash = leash
	return p.guard.Start()
}

// ready waits until this server answers.
func (p *process) ready(ctx context.Context, url string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.answers(ctx, url)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for PostgreSQL: %w (its last word: %w)", ctx.Err(), err)
		case <-p.exited:
			return fmt.Errorf("PostgreSQL ended at its start:\n%s", p.lastWords())
		}
	}
}

// answers asks for the directory, too: on a port that was taken, another server answers.
func (p *process) answers(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	if data != p.data {
		return errors.Join(fmt.Errorf("the server of %s answers", data), conn.Close(ctx))
	}
	return conn.Close(ctx)
}

func (p *process) lastWords() []byte {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-10):], []byte("\n"))
}

// stop asks for a fast shutdown, which rolls back what is open, and lets the guard clean up.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGINT) // fails when it has ended by itself
	select {
	case <-p.exited:
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	return errors.Join(p.leash.Close(), p.guard.Wait())
}
