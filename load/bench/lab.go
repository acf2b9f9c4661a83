package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"example.com/billing/load/rig"
)

// lab is what all trials share: Kafka, Postgres, the binaries, and a place for logs.
type lab struct {
	*rig.Servers
	dir     string
	self    string // this binary, for the children
	billing string // the service's
}

func openLab(ctx context.Context, o options) (l *lab, err error) {
	l = &lab{billing: o.billing}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(true))
		}
	}()
	if l.dir, err = rig.TempDir("billing-bench-"); err != nil {
		return l, err
	}
	if l.self, err = os.Executable(); err != nil {
		return l, err
	}
	if slices.Contains(o.programs, "service") && l.billing == "" {
		if l.billing, err = rig.Build(ctx, l.dir); err != nil {
			return l, err
		}
	}
	l.Servers, err = rig.OpenServers(ctx, l.dir, os.Getenv("BENCH_KAFKA_BROKERS"), os.Getenv("BENCH_DATABASE_URL"), false)
	return l, err
}

// say tells how far the run is; the table comes at the end.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// close stops what was started. After a failure the logs stay.
func (l *lab) close(failed bool) error {
	if l.Servers != nil {
		l.Close()
	}
	if failed {
		say("the logs are kept in %s", l.dir)
		return nil
	}
	return os.RemoveAll(l.dir)
}
