package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"example.com/billing/internal/billing/pgstore"
)

// remedies tell a person what a flaw means and what to do. To produce a record again does no harm: an order that was charged is
// a duplicate.
var remedies = map[pgstore.FlawKind]string{
	pgstore.NoFate: "The service moved on from these records, and nothing tells what became of them: no order's row is\n" +
		"  waiting for an outcome, so an order may be lost. Read them from the topic\n" +
		"  and produce them again; an order that was charged is not charged twice.",
	pgstore.Unsettled: "The orders of these records were sent, and what became of them is not written: the database refused it, say.\n" +
		"  Do not produce them again: `billing reconcile --unknown-only` asks the provider. `billing serve` puts them on its\n" +
		"  list some minutes after a claim ended. What was charged is even then; what was not is no_fate at the next check.",
	pgstore.NotCounted: "These records ended somewhere and were never counted as taken, most likely since the group's offsets were set forward and back\n" +
		"  again. No order is lost by that.",
	pgstore.TwoOrders: "Two orders were charged for one record. One of them came from a record with forged headers, or the rows were changed by hand: find\n" +
		"  out who writes to the retry and dead-letter topics, and compare both orders with the shop.",
	pgstore.TwoFates:        "The record is charged, and its fate says otherwise. As above: headers or rows were forged.",
	pgstore.NoEvent:         "The order is decided and no result event was ever written: tell its consumers by hand.",
	pgstore.EventOnly:       "A result event tells of a charge that the order's row does not know: `billing reconcile` tells whether money moved.",
	pgstore.DecidedUnknown:  "The order is decided and its outcome is unknown, both at once: `billing reconcile` tells whether money moved.",
	pgstore.UnlistedUnknown: "Nobody will look the outcome up, `billing reconcile --unknown-only` neither: insert the order into unknown_outcomes.",
}

func (r balanceReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s at %s\n", printable(r.Topic), stamp(r.At))
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "partition\ttaken\tcharged\tduplicate\twaiting\tdead\tdropped\tresolved\tdifference\t")
	row := func(name string, b pgstore.Balance) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, b.Taken, b.Charged, b.Duplicate, b.Waiting, b.Dead, b.Dropped, b.Resolved, b.Difference)
	}
	for _, p := range slices.Sorted(maps.Keys(r.Partitions)) {
		row(strconv.Itoa(int(p)), r.Partitions[p])
	}
	row("all", r.Total)
	if err := table.Flush(); err != nil {
		return err
	}
	if len(r.Flaws) == 0 {
		_, err := fmt.Fprintln(w, "even: every record that was taken ended in exactly one way")
		return err
	}
	return r.printFlaws(w)
}

func (r balanceReport) printFlaws(w io.Writer) error {
	fmt.Fprintln(w)
	table := newTable(w)
	table.row("FLAW", "PARTITION", "RECORDS", "OFFSETS", "ORDER")
	kinds := map[pgstore.FlawKind]int{}
	for _, f := range r.Flaws {
		kinds[f.Kind]++
		partition, records, order := "-", "-", "-"
		if f.Partition != nil {
			partition = strconv.Itoa(int(*f.Partition))
		}
		if f.Records > 0 {
			records = strconv.FormatInt(f.Records, 10)
		}
		if f.OrderID != nil {
			order = f.OrderID.String()
		}
		table.row(string(f.Kind), partition, records, offsets(f), order)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		if kinds[k] == pgstore.MaxFlaws {
			fmt.Fprintf(w, "\n%s: the first %d are listed, there may be more.", k, pgstore.MaxFlaws)
		}
		if _, err := fmt.Fprintf(w, "\n%s: %s\n", k, remedies[k]); err != nil {
			return err
		}
	}
	return nil
}

// offsets are "4,7-9"; with holes among them "2 of 4,7-9": only so many of those are records, and the others were never any.
func offsets(f pgstore.Flaw) string {
	if len(f.Offsets) == 0 {
		return "-"
	}
	var all []string
	var n int64
	for _, o := range f.Offsets {
		n += o.To - o.From + 1
		if o.From == o.To {
			all = append(all, strconv.FormatInt(o.From, 10))
			continue
		}
		all = append(all, fmt.Sprintf("%d-%d", o.From, o.To))
	}
	text := strings.Join(all, ",")
	switch {
	case n > f.Records:
		return fmt.Sprintf("%d of %s", f.Records, text)
	case n < f.Records:
		return text + ",…"
	}
	return text
}
