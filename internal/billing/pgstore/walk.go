package pgstore

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/billing/internal/billing"
)

// walk marks the offsets of one partition that something stands for. A sum can be even while one record has no fate and
// another has two; this tells which. One bit an offset: ten million records take little more than a megabyte.
type walk struct {
	first, next int64
	records     int64 // received between the two
	seen        bitmap
	distinct    int64
	open        bitmap  // an order's row names it, and nobody has written yet what became of that
	twice       []int64 // charged as two orders
}

// checkRecords finds the records without a fate, those whose order is still open, those that were charged as two orders, and
// how many were never counted.
func checkRecords(ctx context.Context, tx pgx.Tx, topicID uuid.UUID) (found []Flaw, err error) {
	walks, err := walkAll(ctx, tx, topicID)
	if err != nil {
		return nil, err
	}
	var partitions []int32
	var twice []int64
	for _, p := range slices.Sorted(maps.Keys(walks)) {
		w := walks[p]
		if n, unsettled := w.unsettled(); n > 0 {
			found = append(found, Flaw{Kind: Unsettled, Partition: &p, Records: n, Offsets: unsettled})
			w.distinct += n
		}
		// received = those that something stands for + those without - those that were never counted
		switch lost := w.records - w.distinct; {
		case lost > 0:
			found = append(found, Flaw{Kind: NoFate, Partition: &p, Records: lost, Offsets: w.gaps()})
		case lost < 0:
			found = append(found, Flaw{Kind: NotCounted, Partition: &p, Records: -lost})
		}
		for _, offset := range w.twice {
			partitions, twice = append(partitions, p), append(twice, offset)
		}
	}
	if len(twice) == 0 {
		return found, nil
	}
	named, err := flaws(ctx, tx, twoOrdersSQL, topicID, partitions, twice)
	return append(found, named...), err
}

const twoOrdersSQL = `
SELECT 'two_orders', origin_partition, origin_offset, order_id FROM charges
 WHERE origin_topic_id = $1 AND state = 'succeeded' AND (origin_partition, origin_offset) IN (SELECT * FROM unnest($2::integer[], $3::bigint[]))
 ORDER BY 2, 3, 4 LIMIT 100`

func walkAll(ctx context.Context, tx pgx.Tx, topicID uuid.UUID) (map[int32]*walk, error) {
	walks := map[int32]*walk{}
	rows, err := tx.Query(ctx, `SELECT partition, first_offset, next_offset, records FROM intake WHERE topic_id = $1`, topicID)
	if err != nil {
		return nil, err
	}
	var p int32
	var w walk
	if _, err := pgx.ForEachRow(rows, []any{&p, &w.first, &w.next, &w.records}, func() error {
		walks[p] = &walk{first: w.first, next: w.next, records: w.records, seen: bitmap{}, open: bitmap{}}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, sql := range []string{
		`SELECT origin_partition, origin_offset, state FROM charges WHERE origin_topic_id = $1 AND state IN ('succeeded', 'in_flight', 'unknown', 'review')`,
		`SELECT partition, "offset", '' FROM record_fates WHERE topic_id = $1`,
	} {
		if err := mark(ctx, tx, sql, topicID, walks); err != nil {
			return nil, err
		}
	}
	return walks, nil
}

// mark sees charges first: a record of them that was seen before was charged as another order.
func mark(ctx context.Context, tx pgx.Tx, sql string, topicID uuid.UUID, walks map[int32]*walk) error {
	rows, err := tx.Query(ctx, sql, topicID)
	if err != nil {
		return err
	}
	var p int32
	var offset int64
	var state string // of the order; empty: a fate
	_, err = pgx.ForEachRow(rows, []any{&p, &offset, &state}, func() error {
		w := walks[p]
		switch {
		case w == nil || offset < w.first || offset >= w.next: // in flight
		case state != "" && state != string(billing.Succeeded):
			w.open.add(offset)
		case w.seen.add(offset):
			w.distinct++
		case state != "" && !slices.Contains(w.twice, offset) && len(w.twice) < MaxFlaws:
			w.twice = append(w.twice, offset)
		}
		return nil
	})
	return err
}

// gaps are the offsets that nothing stands for.
func (w *walk) gaps() []Offsets {
	_, gaps := w.ranges(func(o int64) bool { return !w.seen.has(o) && !w.open.has(o) })
	return gaps
}

// unsettled are the offsets that only the row of an open order stands for.
func (w *walk) unsettled() (n int64, offsets []Offsets) {
	if len(w.open) == 0 {
		return 0, nil
	}
	return w.ranges(func(o int64) bool { return w.open.has(o) && !w.seen.has(o) })
}

// ranges counts the offsets that belong, and lists as many ranges of them as may be listed.
func (w *walk) ranges(belongs func(int64) bool) (n int64, found []Offsets) {
	for o := w.first; o < w.next; o++ {
		if !belongs(o) {
			continue
		}
		n++
		switch last := len(found) - 1; {
		case last >= 0 && found[last].To == o-1:
			found[last].To = o
		case len(found) < MaxFlaws:
			found = append(found, Offsets{o, o})
		}
	}
	return n, found
}

// bitmap is a set of offsets, in pages, since offsets may begin anywhere and have holes of any size.
type bitmap map[int64]*[512]uint64

// add reports whether the offset is new to the set.
func (b bitmap) add(o int64) bool {
	page := b[o>>15]
	if page == nil {
		page = &[512]uint64{}
		b[o>>15] = page
	}
	word, bit := &page[o>>6&511], uint64(1)<<(o&63)
	was := *word&bit != 0
	*word |= bit
	return !was
}

func (b bitmap) has(o int64) bool {
	page := b[o>>15]
	return page != nil && page[o>>6&511]&(1<<(o&63)) != 0
}
