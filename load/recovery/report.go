package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"example.com/billing/load/rig"
)

// figure is one thing measured.
type figure struct {
	name     string
	asked    string // empty: nothing is asked
	measured string
	missed   bool
}

func within(name string, took, most time.Duration) figure {
	return figure{name, "≤ " + seconds(most), seconds(took), took > most || took <= 0}
}

func atMost(name string, n, most int) figure {
	asked := fmt.Sprint(most)
	if most > 0 {
		asked = "≤ " + asked
	}
	return figure{name, asked, fmt.Sprint(n), n > most}
}

func told(name, text string) figure { return figure{name: name, measured: text} }

const maxMemory = 200e6

func memory(peak int) figure {
	return figure{"peak memory", "≤ " + rig.Megabytes(maxMemory), rig.Megabytes(peak), peak > maxMemory || peak <= 0}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// row is what was measured of a scenario.
type row struct {
	section  string
	scenario string
	figures  []figure
	err      error // why it could not be measured to the end
}

// String is for the one who waits.
func (r row) String() string {
	parts := []string{}
	for _, f := range r.figures {
		parts = append(parts, f.name+" "+f.mark())
	}
	if r.err != nil {
		parts = append(parts, fmt.Sprintf("MISSED: %v", r.err))
	}
	return r.scenario + ": " + strings.Join(parts, ", ")
}

func (f figure) mark() string {
	if f.missed {
		return f.measured + " MISSED"
	}
	return f.measured
}

// report is all of them, those of a section one after the other.
type report struct {
	servers string
	rows    []row
}

// write prints a table for each section: what is measured, what is asked, and a line for each scenario.
func (r *report) write(w io.Writer) {
	fmt.Fprintf(w, "\n%d cores, %s, %s/%s; %s; everything on this machine\n", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, r.servers)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var first row // of the section
	for _, row := range r.rows {
		if len(row.figures) > 0 && row.section != first.section {
			first = row
			head, asked := "\n"+row.section, "asked"
			for _, f := range row.figures {
				head, asked = head+"\t"+f.name, asked+"\t"+f.asked
			}
			fmt.Fprintln(t, head+"\n"+asked)
		}
		fmt.Fprint(t, row.scenario)
		for i, f := range row.figures {
			fmt.Fprint(t, "\t"+f.mark())
			if f.asked != first.figures[i].asked {
				fmt.Fprint(t, " (asked "+f.asked+")")
			}
		}
		if row.err != nil {
			fmt.Fprintf(t, "\tMISSED: %v", row.err)
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // to a terminal
}

// verdict counts what was missed.
func (r *report) verdict() error {
	var missed []string
	for _, row := range r.rows {
		if row.err != nil {
			missed = append(missed, row.scenario)
		}
		for _, f := range row.figures {
			if f.missed {
				missed = append(missed, fmt.Sprintf("%s: %s %s, asked %s", row.scenario, f.name, f.measured, f.asked))
			}
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed: %s", strings.Join(missed, "; "))
	}
	return nil
}
