package main

import (
	"context"
	"sync"
)

// deploy migrates the schema under an earlier release that runs, and then replaces its instances one after the other. The
// migration goes further than today's: the next ones will only add, too.
func (s *stage) deploy(ctx context.Context) (undo func() error, err error) {
	if err := s.in.Prepare(ctx, s.plan.partitions); err != nil {
		return nothing, err
	}
	if err := s.database.Exec(ctx, `ALTER TABLE charges ADD COLUMN IF NOT EXISTS torture_more integer; CREATE TABLE IF NOT EXISTS torture_more (id integer)`); err != nil {
		return nothing, err
	}
	var rolling sync.WaitGroup
	rolling.Go(func() { s.roll(ctx, func(i *instance) { i.Binary = s.in.Binary }) })
	return func() error { rolling.Wait(); return nil }, nil
}
