package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// print is the line of a round.
func (o outcome) print(w io.Writer) {
	word := "ok    "
	if !o.passed() {
		word = "FAILED"
	}
	fmt.Fprintf(w, "%s seed %d %4.1fs %d×", word, o.plan.seed, o.took.Seconds(), o.plan.instances)
	if v := o.verdict; v != nil {
		fmt.Fprintf(w, " records %d charged %d refused %d dup %d conflict %d bad %d given-up %d unknown %d again %d lost %d double %d",
			v.Records, v.Charged, v.Refused, v.Duplicates, v.Conflicts, v.Bad, v.GivenUp, v.Unknown, v.Repeated, v.Lost, v.Double)
	}
	var names []string
	for _, f := range o.plan.faults {
		names = append(names, f.name())
	}
	fmt.Fprintf(w, " [%s]\n", strings.Join(names, " "))
	if !o.passed() {
		o.printWrong(w)
	}
}

// printWrong shows the first of what is wrong; all of it stands in the round's directory.
func (o outcome) printWrong(w io.Writer) {
	fmt.Fprintf(w, "       again: go run ./load/torture -rounds 1 -seed %d; plan, timeline, problems and logs: %s\n", o.plan.seed, o.dir)
	var lines []string
	if o.err != nil {
		lines = append(lines, o.err.Error())
	}
	lines = append(lines, o.wrong...)
	if o.verdict != nil {
		for _, p := range o.verdict.Problems {
			lines = append(lines, strings.TrimSpace(p.Order+" "+p.Text))
		}
	}
	for _, l := range lines[:min(len(lines), 8)] {
		fmt.Fprintf(w, "       %s\n", l)
	}
	if len(lines) > 8 {
		fmt.Fprintf(w, "       and %d more\n", len(lines)-8)
	}
}

// summary adds the rounds up.
type summary struct {
	rounds, failed                                                                                   int
	records, orders, charged, refused, duplicates, conflicts, bad, givenUp, unknown, repeated, asked int
	lost, double, nudged                                                                             int
	faults                                                                                           map[string]int
	instances                                                                                        map[int]int
	took                                                                                             time.Duration
}

func newSummary() *summary { return &summary{faults: map[string]int{}, instances: map[int]int{}} }

func (s *summary) add(o outcome) {
	s.rounds++
	s.took += o.took
	s.nudged += o.nudged
	s.instances[o.plan.instances]++
	if !o.passed() {
		s.failed++
	}
	for _, f := range o.plan.faults {
		s.faults[f.name()]++
	}
	if v := o.verdict; v != nil {
		s.records, s.orders, s.charged, s.refused = s.records+v.Records, s.orders+v.Orders, s.charged+v.Charged, s.refused+v.Refused
		s.duplicates, s.conflicts, s.bad = s.duplicates+v.Duplicates, s.conflicts+v.Conflicts, s.bad+v.Bad
		s.givenUp, s.unknown, s.repeated, s.asked = s.givenUp+v.GivenUp, s.unknown+v.Unknown, s.repeated+v.Repeated, s.asked+v.Requests
		s.lost, s.double = s.lost+v.Lost, s.double+v.Double
	}
}

func (s *summary) print(w io.Writer) {
	if s.rounds == 0 {
		return
	}
	fmt.Fprintf(w, "\n%d rounds, %d failed; %.0f s each; instances 1: %d, 2: %d, 3: %d\n", s.rounds, s.failed, s.took.Seconds()/float64(s.rounds), s.instances[1], s.instances[2], s.instances[3])
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "records\torders\tcharged\trefused\tduplicates\tconflicts\tbad\tgiven up\tunknown\trequests\tpublished again\tlost\tdouble\t\n")
	fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", s.records, s.orders, s.charged, s.refused, s.duplicates, s.conflicts, s.bad,
		s.givenUp, s.unknown, s.asked, s.repeated, s.lost, s.double)
	_ = t.Flush() // to a terminal
	total := 0
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		total += s.faults[name]
		fmt.Fprintf(w, "%6d %s\n", s.faults[name], name)
	}
	fmt.Fprintf(w, "%6d faults\n", total)
	if s.nudged > 0 {
		fmt.Fprintf(w, "%6d times the embedded broker was restarted to end a rebalance that it had lost track of\n", s.nudged)
	}
}

func (s *summary) verdict() error {
	if s.failed > 0 {
		return fmt.Errorf("%d of %d rounds failed", s.failed, s.rounds)
	}
	return nil
}
