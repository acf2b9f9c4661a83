package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/load/bench/ledger"
	"example.com/billing/load/rig"
)

const partitions = 6

// trial is one program on topics, a database and a provider of its own.
type trial struct {
	lab      *lab
	program  string // one of allPrograms
	inFlight int
	topic    string
	group    string
	database *rig.Database
	http     string // address of the service's HTTP server
	provider *rig.Process
	ledger   ledger.Client
	orders   *loadgen.Generator
	child    *rig.Process // once started
}

// newTrial makes everything but the orders, and starts nothing but the provider.
func newTrial(ctx context.Context, l *lab, program string, inFlight int, provider ...string) (t *trial, err error) {
	id := strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	t = &trial{lab: l, program: program, inFlight: inFlight, topic: "bench-" + id + ".orders", group: "bench-" + id}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close(ctx))
		}
	}()
	if t.orders, err = loadgen.New(loadgen.Config{Topic: t.topic, Seed: 42}); err != nil {
		return t, err
	}
	if err = t.startProvider(provider); err != nil {
		return t, err
	}
	if t.database, err = rig.OpenDatabase(ctx, l.Database, "bench_"); err != nil {
		return t, err
	}
	if t.http, err = rig.FreeAddress(); err != nil {
		return t, err
	}
	return t, t.prepare(ctx)
}

func (t *trial) startProvider(args []string) (err error) {
	addr, err := rig.FreeAddress()
	if err != nil {
		return err
	}
	t.ledger.URL = "http://" + addr
	if t.provider, err = rig.Launch(t.log("ledger"), os.Environ(), t.lab.self, append([]string{"ledger", "-listen", addr}, args...)...); err != nil {
		return err
	}
	return t.provider.Listens(addr)
}

// log is the file of a program of this trial.
func (t *trial) log(program string) string {
	return filepath.Join(t.lab.dir, t.group+"-"+program+".log")
}

// backlog publishes n orders before the program starts.
func (t *trial) backlog(ctx context.Context, n int) error {
	return t.orders.Backlog(ctx, t.lab, n, nil)
}

// sample is one look at the running program.
type sample struct {
	at      time.Time
	usage   rig.Usage
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
		if s.usage, err = rig.UsageOf(t.child.PID()); err == nil {
			see(s)
		}
		if s.charges.Charged >= n {
			return nil
		}
		select {
		case <-tick.C:
		case <-over:
			return nil
		case <-t.child.Exited():
			return errors.Join(fmt.Errorf("%s ended by itself", t.program), t.child.Failure())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stopWithin is how long a program may take to stop before it is killed.
const stopWithin = 20 * time.Second

// stop ends the program and says how long that took. The ledger still answers.
func (t *trial) stop() (time.Duration, error) {
	took, err := t.child.Stop(stopWithin)
	return took, errors.Join(err, t.child.Failure())
}

// close removes everything, also after a failure at any step.
func (t *trial) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	for _, p := range []*rig.Process{t.child, t.provider} {
		if p != nil {
			_, err := p.Stop(stopWithin)
			errs = append(errs, err, p.Failure())
		}
	}
	if t.database != nil {
		errs = append(errs, t.database.Close())
	}
	return errors.Join(append(errs, t.lab.DeleteTopics(ctx, t.topic))...)
}
