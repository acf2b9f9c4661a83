package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/load/bench/ledger"
)

const partitions = 6

// trial is one program on topics, a database and a provider of its own.
type trial struct {
	lab      *lab
	program  string // one of allPrograms
	inFlight int
	topic    string
	group    string
	database string // URL
	name     string // of the database
	http     string // address of the service's HTTP server
	provider *child
	ledger   ledger.Client
	orders   *loadgen.Generator
	child    *child // once started
}

// newTrial makes everything but the orders, and starts nothing but the provider.
func newTrial(ctx context.Context, l *lab, program string, inFlight int, provider ...string) (t *trial, err error) {
	id := strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	t = &trial{lab: l, program: program, inFlight: inFlight, topic: "bench-" + id + ".orders", group: "bench-" + id, name: "bench_" + id}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close(ctx))
		}
	}()
	if t.orders, err = loadgen.New(loadgen.Config{Topic: t.topic, Seed: 42}); err != nil {
		return t, err
	}
	if t.provider, t.ledger.URL, err = startServer(ctx, l.dir, "ledger", l.self, append([]string{"ledger"}, provider...)...); err != nil {
		return t, err
	}
	if err = l.query(ctx, "CREATE DATABASE "+t.name); err != nil {
		return t, err
	}
	if t.database, err = otherDatabase(l.database, t.name); err != nil {
		return t, err
	}
	if t.http, err = freeAddress(ctx); err != nil {
		return t, err
	}
	return t, t.prepare(ctx)
}

func otherDatabase(base, name string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", errors.New("BENCH_DATABASE_URL is not a URL such as postgres://user@127.0.0.1:5432/postgres")
	}
	u.Path = "/" + name
	return u.String(), nil
}

func freeAddress(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// backlog publishes n orders before the program starts.
func (t *trial) backlog(ctx context.Context, n int) error {
	return t.orders.Backlog(ctx, t.lab, n, nil)
}

// sample is one look at the running program.
type sample struct {
	at      time.Time
	usage   usage
	charges ledger.Summary
}

// watch looks every so often until n orders were charged, the time is over or the program has ended by itself, which is an
// error. What see gets is in order of time.
func (t *trial) watch(ctx context.Context, n int, every, limit time.Duration, see func(sample)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	over := time.After(limit)
	for {
		s := sample{at: time.Now()}
		var err error
		if s.charges, err = t.ledger.Summary(ctx); err != nil {
			return err
		}
		if s.usage, err = usageOf(t.child.cmd.Process.Pid); err == nil {
			see(s)
		}
		if s.charges.Charged >= n {
			return nil
		}
		select {
		case <-tick.C:
		case <-over:
			return nil
		case <-t.child.done:
			return errors.Join(fmt.Errorf("%s ended by itself", t.program), t.child.failure())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stop ends the program and says how long that took. The ledger still answers.
func (t *trial) stop() (time.Duration, error) {
	from := time.Now()
	err := t.child.stop()
	return time.Since(from), err
}

// close removes everything, also after a failure at any step.
func (t *trial) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	for _, c := range []*child{t.child, t.provider} {
		if c != nil {
			errs = append(errs, c.stop())
		}
	}
	topics, err := t.lab.admin.ListTopics(ctx)
	errs = append(errs, err)
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, t.topic) {
			_, err := t.lab.admin.DeleteTopic(ctx, name)
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, t.lab.query(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{t.name}.Sanitize()+" WITH (FORCE)"))...)
}
