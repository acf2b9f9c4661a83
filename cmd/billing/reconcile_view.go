package main

import (
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/reconcile"
)

func printReport(w io.Writer, report reconcile.Report) error {
	if u := report.Unknown; u != nil {
		fmt.Fprintf(w, "unknown outcomes: %d looked at; %d were charged, %d were not, %d are still unknown, %d busy or known by now; %d dead letters resolved\n",
			u.Looked, u.Charged, u.NotCharged, u.Left, u.Busy, u.Letters)
	}
	if r := report.Range; r != nil {
		fmt.Fprintf(w, "charges from %s to %s: %d there, %d orders here\n", stamp(r.From), stamp(r.To), r.There, r.Here)
		fmt.Fprintf(w, "looked up: %d orders, %d of %d with more than one claim; %d unknown outcomes resolved, %d busy, %d unproven\n",
			r.LookedUp, r.Sampled, r.TakenOver, r.Resolved, r.Busy, r.Unproven)
		if r.Until.Before(r.To) {
			fmt.Fprintf(w, "not finished: compared up to %s\n", stamp(r.Until))
		}
	}
	found := report.Differences()
	if len(found.Listed) > 0 {
		table := newTable(w)
		table.row("DIFFERENCE", "ORDER", "CHARGE", "THERE", "HERE")
		for _, d := range found.Listed {
			table.row(string(d.Kind), orderOf(d), orNone(d.ChargeID), orNone(d.There), orNone(d.Here))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	end := fmt.Sprintf("%d differences", found.Total)
	if more := found.Total - len(found.Listed); more > 0 {
		end += fmt.Sprintf(", %d of them not listed", more)
	}
	_, err := fmt.Fprintln(w, end)
	return err
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func orderOf(d reconcile.Difference) string {
	if d.OrderID == uuid.Nil {
		return "-"
	}
	return d.OrderID.String()
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// progress is one line on a terminal that is written over; anywhere else nothing.
type progress struct {
	w     io.Writer
	on    bool
	shown time.Time
}

func newProgress(w io.Writer) *progress { return &progress{w: w, on: isTerminal(w)} }

func (p *progress) show(report reconcile.Report) {
	if !p.on || time.Since(p.shown) < 200*time.Millisecond {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(p.w, "\r\x1b[K%s", progressLine(report))
}

func progressLine(report reconcile.Report) string {
	if r := report.Range; r != nil {
		part := 100 * r.Until.Sub(r.From).Seconds() / r.To.Sub(r.From).Seconds()
		return fmt.Sprintf("%3.0f %%  compared up to %s: %d there, %d here, %d differences", part, stamp(r.Until), r.There, r.Here, report.Differences().Total)
	}
	return fmt.Sprintf("unknown outcomes: %d looked at, %d were charged", report.Unknown.Looked, report.Unknown.Charged)
}

func (p *progress) end() {
	if p.on && !p.shown.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
