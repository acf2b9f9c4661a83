// Command bench measures the service beside a plain loop and beside a floor that keeps no promise, in one run on one
// machine, and prints one table. Only figures of the same run may be compared.
//
// It starts what it measures as child processes and reads their processor time and memory from /proc, so it needs Linux.
// Kafka and Postgres are BENCH_KAFKA_BROKERS and BENCH_DATABASE_URL, else embedded ones. Each figure gets topics, a
// database and a provider of its own; how often money moved is the provider's word, never the service's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/billing/load/rig"
)

// options is what a run measures.
type options struct {
	programs  []string
	parts     []string
	latencies []time.Duration
	inFlight  []int
	n         int
	quick     bool
	billing   string
	json      string
}

var (
	allPrograms = []string{"loop", "floor", "service"}
	allParts    = []string{"throughput", "latency", "lateness", "limits", "idle", "memory"}
)

func main() {
	rig.Main("bench", func(ctx context.Context, args []string) error {
		if len(args) > 0 && children[args[0]] != nil {
			return children[args[0]](ctx, args[1:])
		}
		o, err := parse(args)
		if err != nil {
			return err
		}
		return run(ctx, o)
	})
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := fs.String("only", strings.Join(allPrograms, ","), "programs to measure")
	parts := fs.String("parts", "throughput,latency,lateness,limits,idle", "what to measure: of "+strings.Join(allParts, ","))
	latencies := fs.String("latency", "0,20ms,100ms", "of the provider, for throughput")
	inFlight := fs.String("inflight", "256,2048", "charges in flight, for throughput")
	full := fs.Bool("full", false, "also the memory with a backlog of 1,000,000 orders")
	fs.IntVar(&o.n, "n", 0, "orders of backlog (20,000, and 40,000 at 0 ms)")
	fs.BoolVar(&o.quick, "quick", false, "a tenth of the orders and of the time: to see that it works")
	fs.StringVar(&o.billing, "billing", "", "the service's binary (built from ./cmd/billing)")
	fs.StringVar(&o.json, "json", "", "file to write the figures to")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.programs, o.parts = strings.Split(*only, ","), strings.Split(*parts, ",")
	if *full {
		o.parts = append(o.parts, "memory")
	}
	for _, p := range o.programs {
		if !slices.Contains(allPrograms, p) {
			return o, fmt.Errorf("-only: %q is not one of %v", p, allPrograms)
		}
	}
	for _, p := range o.parts {
		if !slices.Contains(allParts, p) {
			return o, fmt.Errorf("-parts: %q is not one of %v", p, allParts)
		}
	}
	for l := range strings.SplitSeq(*latencies, ",") {
		d, err := time.ParseDuration(l)
		if err != nil || d < 0 {
			return o, fmt.Errorf("-latency: %q is not a duration such as 20ms", l)
		}
		o.latencies = append(o.latencies, d)
	}
	for f := range strings.SplitSeq(*inFlight, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-inflight: %q is not a number above 0", f)
		}
		o.inFlight = append(o.inFlight, n)
	}
	return o, nil
}

// run measures part after part. What was measured is printed also when a later part fails.
func run(ctx context.Context, o options) (err error) {
	l, err := openLab(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(err != nil)) }()
	r := newReport(l)
	defer func() { err = errors.Join(err, r.write(os.Stdout, o.json)) }()
	for _, part := range []struct {
		name    string
		measure func(context.Context, *lab, options, *report) error
	}{
		{"throughput", measureThroughput}, {"latency", measureLatency}, {"lateness", measureLateness},
		{"limits", measureLimits}, {"idle", measureIdle}, {"memory", measureMemory},
	} {
		if slices.Contains(o.parts, part.name) {
			if err := part.measure(ctx, l, o, r); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return r.verdict()
}
