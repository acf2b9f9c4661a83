// Command torture runs the service under faults, again and again, and judges each round by the provider's ledger and the
// broker's topics: no order lost, none charged twice. docs/reliability.md tells what is judged and how to read a failure.
//
// Everything a round does follows from its seed. It starts what it needs by itself: the real binary, brokers, Postgres, a
// provider, and a network between them that it can break. It needs Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"example.com/billing/load/rig"
)

// options is what to run, and on what.
type options struct {
	rounds       int
	seed         uint64
	parallel     int
	binary       string
	older        string // binary of an earlier release
	kafka        string // script
	database     string // admin URL
	dir          string
	plan         bool
	surroundings surroundings
}

func main() { rig.Main("torture", run) }

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.plan {
		_, err := fmt.Print(drawPlan(o.seed, o.surroundings))
		return err
	}
	if o.dir == "" {
		if o.dir, err = rig.TempDir("billing-torture-"); err != nil {
			return err
		}
	}
	if o.binary == "" {
		if o.binary, err = rig.Build(ctx, o.dir); err != nil {
			return err
		}
	}
	return torture(ctx, o)
}

func parse(args []string) (o options, err error) {
	fs := flag.NewFlagSet("torture", flag.ContinueOnError)
	fs.IntVar(&o.rounds, "rounds", 20, "rounds to play")
	fs.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()/1e6), "of the first round; the next ones have the next numbers")
	fs.IntVar(&o.parallel, "parallel", 2, "rounds at a time; 1 with -kafka")
	fs.StringVar(&o.binary, "billing", "", "the service's binary (built from ./cmd/billing)")
	fs.StringVar(&o.older, "older", "", "the binary of an earlier release: rounds may begin with it and deploy the present one (none)")
	faults := fs.String("faults", "", "only these kinds of faults, comma-separated (all)")
	fs.StringVar(&o.kafka, "kafka", os.Getenv("TORTURE_KAFKA"), "script that breaks a real cluster, which runs: SCRIPT brokers | kill N | restart N | freeze N | thaw N")
	fs.StringVar(&o.database, "database", os.Getenv("TORTURE_DATABASE_URL"), "a Postgres where databases may be made; it is not killed")
	fs.StringVar(&o.dir, "dir", "", "directory for logs of failed rounds (a temporary one)")
	fs.BoolVar(&o.plan, "plan", false, "print the plan of the seed and play nothing")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.rounds < 1 || o.parallel < 1 {
		return o, errors.New("-rounds and -parallel must be at least 1")
	}
	o.surroundings = surroundings{brokers: 1, database: o.database == "", ahead: o.kafka == "", older: o.older != ""}
	if o.surroundings.only, err = kindsNamed(*faults, o.surroundings); err != nil {
		return o, err
	}
	if o.kafka != "" {
		o.parallel = 1 // its brokers are everybody's
		k, err := openScriptedKafka(context.Background(), o.kafka)
		if err != nil {
			return o, err
		}
		o.surroundings.brokers = len(k.brokers)
	}
	return o, nil
}

// torture plays the rounds and reports each when it ends.
func torture(ctx context.Context, o options) error {
	fmt.Printf("torture: %d rounds from seed %d, logs of failed ones in %s\n", o.rounds, o.seed, o.dir)
	seeds := make(chan uint64)
	outcomes := make(chan outcome)
	var players sync.WaitGroup
	for range min(o.parallel, o.rounds) {
		players.Go(func() {
			for seed := range seeds {
				outcomes <- play(ctx, o, seed)
			}
		})
	}
	go func() {
		defer close(outcomes)
		defer players.Wait()
		defer close(seeds)
		for n := range o.rounds {
			select {
			case seeds <- o.seed + uint64(n):
			case <-ctx.Done():
				return
			}
		}
	}()
	sum := newSummary()
	for out := range outcomes {
		if ctx.Err() != nil && !out.passed() {
			continue // interrupted in the middle
		}
		sum.add(out)
		out.print(os.Stdout)
	}
	sum.print(os.Stdout)
	return sum.verdict()
}
