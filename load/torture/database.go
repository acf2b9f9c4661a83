package main

import (
	"context"
	"fmt"
	"strings"
)

// hurtDatabase makes a fault of the database and returns what undoes it.
func (s *stage) hurtDatabase(ctx context.Context, f fault) (undo func() error, err error) {
	d := s.database
	switch f.kind {
	case "terminate":
		return nothing, d.Terminate(ctx)
	case "read-only":
		return func() error { return d.ReadOnly(ctx, false) }, d.ReadOnly(ctx, true)
	case "crash":
		return func() error { return d.Start(ctx) }, d.Crash()
	case "sql":
		table, code, _ := strings.Cut(f.detail, ":")
		return func() error { return d.Trap(ctx, "") }, d.Trap(ctx, fmt.Sprintf(
			`IF TG_TABLE_NAME = '%s' THEN RAISE EXCEPTION 'made by the torture' USING ERRCODE = '%s'; END IF;`, table, code))
	case "deallocate":
		return func() error { return d.Trap(ctx, "") }, d.Trap(ctx, `EXECUTE 'DEALLOCATE ALL';`)
	case "lock":
		return d.LockRows(ctx, `SELECT 1 FROM charges ORDER BY state = 'succeeded', updated_at DESC LIMIT 3 FOR UPDATE SKIP LOCKED`)
	case "setback":
		return func() error { return s.setBack(ctx) }, d.Snapshot(ctx)
	}
	return nil, fmt.Errorf("nobody knows how to make %q", f.kind)
}

// trapped are the tables whose statements a fault can make fail.
var trapped = []string{"charges", "record_fates", "outbox"}

// setBack restores the database to its snapshot, as a person would: with every instance stopped.
func (s *stage) setBack(ctx context.Context) error {
	for _, i := range s.crew {
		i.kill()
	}
	if err := s.database.Restore(ctx); err != nil {
		return err
	}
	s.times.note("the database is as it was at its snapshot")
	for _, i := range s.crew {
		i.want(true)
	}
	return nil
}
