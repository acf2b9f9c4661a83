// Command recovery measures how the service behaves through faults: how soon it charges again once they are cured, what an
// outage costs, how soon a dead instance's orders are taken over, how long a stop takes, and how much memory all that needs.
// It prints what is asked beside what was measured, and fails when a figure is missed.
//
// It runs the real binary as a child process behind network links that it can break. How often and when money moved is the
// provider's word; orders, retries and dead letters are counted in the broker's topics. It needs Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"example.com/billing/internal/demo/providersim"
	"example.com/billing/load/rig"
)

// options is what a run measures, and on what.
type options struct {
	only     string
	lasts    time.Duration
	outage   time.Duration
	backlog  int
	binary   string
	kafka    string
	database string
}

func main() { rig.Main("recovery", run) }

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := rig.TempDir("billing-recovery-")
	if err != nil {
		return err
	}
	r, err := measure(ctx, o, dir)
	r.write(os.Stdout)
	if err := errors.Join(err, r.verdict()); err != nil {
		return fmt.Errorf("%w; logs in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

func parse(args []string) (o options, err error) {
	fs := flag.NewFlagSet("recovery", flag.ContinueOnError)
	fs.StringVar(&o.only, "only", "", "measure only scenarios whose section or name holds one of these words, comma-separated")
	fs.DurationVar(&o.lasts, "lasts", 15*time.Second, "how long each short outage lasts; longer than a session and a provider's timeout, 10s")
	fs.DurationVar(&o.outage, "outage", 20*time.Second, "how long the long outage lasts")
	fs.IntVar(&o.backlog, "backlog", 20_000, "orders produced during the long outage")
	fs.StringVar(&o.binary, "billing", "", "the service's binary (built from ./cmd/billing)")
	fs.StringVar(&o.kafka, "kafka", os.Getenv("BENCH_KAFKA_BROKERS"), "brokers, host:port, comma-separated (an embedded one)")
	fs.StringVar(&o.database, "database", os.Getenv("BENCH_DATABASE_URL"), "a Postgres where databases may be made (an embedded one, fsync on)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.lasts <= 0 || o.outage <= 0 || o.backlog < 1 {
		return o, errors.New("-lasts, -outage and -backlog must be more than 0")
	}
	if len(o.chosen()) == 0 {
		return o, fmt.Errorf("-only: no scenario is named like %q", o.only)
	}
	return o, nil
}

// scenario is one fault and what is measured of it.
type scenario struct {
	section  string
	name     string
	rules    []providersim.Rule // by which the provider fails by itself
	settings []string           // of the service, beside the defaults
	play     func(ctx context.Context, s *scene) ([]figure, error)
}

func (o options) scenarios() []scenario {
	var all []scenario
	for _, f := range faults {
		all = append(all, scenario{section: "outage", name: f.name, settings: f.settings, play: f.cured(o.lasts)})
	}
	for _, f := range faults[:1] {
		all = append(all, scenario{section: "outage", name: f.name + ", restarts meanwhile", play: f.restarted(o.lasts)})
	}
	all = append(all,
		scenario{section: "long outage", name: fmt.Sprintf("provider answers 503 for %s", o.outage), play: longOutage(o.outage, o.backlog)},
		scenario{section: "take-over", name: "kill -9 of one of two instances", play: takeOver},
	)
	for _, s := range stops {
		all = append(all, scenario{section: "stop", name: s.name, rules: s.rules, play: s.play})
	}
	return append(all, scenario{section: "second signal", name: twice.name, play: twice.playTwice})
}

// chosen are the scenarios that the user asked for.
func (o options) chosen() (chosen []scenario) {
	for _, s := range o.scenarios() {
		for word := range strings.SplitSeq(o.only, ",") {
			if strings.Contains(s.section+": "+s.name, word) {
				chosen = append(chosen, s)
				break
			}
		}
	}
	return chosen
}

// measure plays one scenario after the other. One that cannot be played is missed, and the next one is played all the same.
func measure(ctx context.Context, o options, dir string) (r report, err error) {
	if o.binary == "" {
		if o.binary, err = rig.Build(ctx, dir); err != nil {
			return r, err
		}
	}
	servers, err := rig.OpenServers(ctx, dir, o.kafka, o.database, true)
	if err != nil {
		return r, err
	}
	defer servers.Close()
	r.servers = servers.Are
	for _, sc := range o.chosen() {
		began := time.Now()
		figures, err := sc.run(ctx, servers, o.binary, dir)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		r.rows = append(r.rows, row{sc.section, sc.name, figures, err})
		fmt.Fprintf(os.Stderr, "%s %3.0fs %s: %s\n", began.Format(time.TimeOnly), time.Since(began).Seconds(), sc.section, r.rows[len(r.rows)-1])
	}
	return r, nil
}

func (sc scenario) run(ctx context.Context, servers *rig.Servers, binary, dir string) (figures []figure, err error) {
	s, err := setUp(ctx, servers, binary, dir, sc)
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	defer func() { err = errors.Join(err, s.tearDown()) }()
	return sc.play(ctx, s)
}
