package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"example.com/billing/load/torture/verdict"
)

// maxExplained bounds the orders that are explained in full.
const maxExplained = 20

// dump writes what explains a failure beside the logs.
func (s *stage) dump(out outcome, c verdict.Case) error {
	return errors.Join(
		os.WriteFile(filepath.Join(s.dir, "plan.txt"), []byte(s.plan.String()), 0o600),
		os.WriteFile(filepath.Join(s.dir, "timeline.txt"), []byte(s.times.String()), 0o600),
		os.WriteFile(filepath.Join(s.dir, "problems.txt"), []byte(problemsOf(out, c)), 0o600),
		os.WriteFile(filepath.Join(s.dir, "groups.txt"), []byte(s.groupsSaid()), 0o600),
	)
}

// groupsSaid is how the brokers see the groups: a round without rest is often one without an assignment.
func (s *stage) groupsSaid() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var b strings.Builder
	for _, g := range s.groups() {
		described, err := s.admin.DescribeGroups(ctx, g.group)
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", g.group, err)
			continue
		}
		committed, err := s.committed(ctx, g)
		fmt.Fprintf(&b, "%s: %s, committed %v %v\n", g.group, described[g.group].State, committed, err)
		for _, m := range described[g.group].Members {
			assigned, _ := m.Assigned.AsConsumer()
			fmt.Fprintf(&b, "  %s at %s: %+v\n", m.MemberID, m.ClientHost, assigned)
		}
	}
	return b.String()
}

func problemsOf(out outcome, c verdict.Case) string {
	var b strings.Builder
	if out.err != nil {
		fmt.Fprintln(&b, out.err)
	}
	for _, w := range out.wrong {
		fmt.Fprintln(&b, w)
	}
	if out.verdict == nil {
		return b.String()
	}
	var orders []string
	for _, p := range out.verdict.Problems {
		fmt.Fprintf(&b, "%s %s\n", p.Order, p.Text)
		if p.Order != "" && !slices.Contains(orders, p.Order) {
			orders = append(orders, p.Order)
		}
	}
	for _, id := range orders[:min(len(orders), maxExplained)] {
		explain(&b, c, id)
	}
	return b.String()
}

// explain lists all that the brokers and the provider have of an order.
func explain(b *strings.Builder, c verdict.Case, id string) {
	fmt.Fprintf(b, "\n%s: account %+v\n", id, c.Accounts[id])
	stamp := func(t time.Time) string { return t.Format("15:04:05.000") }
	for _, topic := range append(append([][]verdict.Record{c.Main}, c.Tiers...), c.Dead, c.Results) {
		for _, r := range topic {
			if string(r.Key) != id && !strings.Contains(string(r.Value), id) {
				continue
			}
			fmt.Fprintf(b, "  %s %s %d/%d %s\n", stamp(r.At), r.Topic, r.Partition, r.Offset, r.Value)
			for _, h := range r.Headers {
				fmt.Fprintf(b, "      %s: %s\n", h.Key, h.Value)
			}
		}
	}
	for _, r := range c.Requests {
		if r.Order == id {
			fmt.Fprintf(b, "  %s POST %s answered %d\n", stamp(r.At), r.Amount, r.Status)
		}
	}
}
