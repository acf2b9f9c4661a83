package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"

	"example.com/billing/load/rig"
)

// report is what a run found.
type report struct {
	Machine    string       `json:"machine"`
	Servers    string       `json:"servers"`
	At         time.Time    `json:"at"`
	Throughput []throughput `json:"throughput,omitempty"`
	Latency    []spread     `json:"order_to_charge,omitempty"`
	Lateness   []spread     `json:"retry_lateness,omitempty"`
	Limits     []limits     `json:"limits,omitempty"`
	Idle       *idle        `json:"idle,omitempty"`
	Memory     []memory     `json:"memory,omitempty"`
}

func newReport(l *lab) *report {
	return &report{
		Machine: fmt.Sprintf("%d cores, %s, %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH),
		Servers: l.Are, At: time.Now().UTC().Truncate(time.Second),
	}
}

// verdict fails the run when a promise was broken. Speed is for the reader to judge.
func (r *report) verdict() error {
	for _, t := range r.Throughput {
		if t.Program != "floor" && t.Missing+t.Twice > 0 {
			return fmt.Errorf("%s, provider %s, %d in flight: %d orders missing, %d charged twice", t.Program, t.Latency, t.InFlight, t.Missing, t.Twice)
		}
	}
	for _, m := range r.Limits {
		if m.Missing+m.Twice > 0 {
			return fmt.Errorf("provider %s: %d orders missing, %d charged twice", m.Provider, m.Missing, m.Twice)
		}
	}
	return nil
}

// write prints the table, and the JSON when a file is named.
func (r *report) write(w io.Writer, file string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s; %s; everything on this machine\n\n", r.Machine, r.Servers)
	r.writeThroughput(t)
	writeSpreads(t, fmt.Sprintf("from order to charge, %d a second", latencyRate), r.Latency)
	writeSpreads(t, fmt.Sprintf("retry lateness, %d a second wait", latenessRate/failEvery), r.Lateness)
	writeLimits(t, r.Limits)
	if r.Idle != nil {
		fmt.Fprintf(t, "\nidle\tready after\tof a core\tresident\t\n\t%s\t%.1f %%\t%s\t\n", millis(r.Idle.Ready), 100*r.Idle.CPU, rig.Megabytes(r.Idle.RSS))
	}
	if len(r.Memory) > 0 {
		fmt.Fprint(t, "\nmemory\tbacklog\tcharged\tin flight\tpeak\tlast third / second\t\n")
		for _, m := range r.Memory {
			fmt.Fprintf(t, "\t%d\t%d\t%d\t%s\t%.2f\t\n", m.Backlog, m.Charged, m.InFlight, rig.Megabytes(m.PeakBytes), m.Growth)
		}
	}
	err := t.Flush()
	if file == "" {
		return err
	}
	b, encodeErr := json.MarshalIndent(r, "", "  ")
	return errors.Join(err, encodeErr, os.WriteFile(file, append(b, '\n'), 0o644)) //nolint:gosec // for everyone to read
}

func (r *report) writeThroughput(t io.Writer) {
	if len(r.Throughput) == 0 {
		return
	}
	fmt.Fprint(t, "provider\tin flight\tprogram\torders\tcharges/s\tof floor\tx loop\tCPU µs/charge\tx floor\tpeak\tfirst charge\tstop\tmissing\ttwice\t\n")
	for _, m := range r.Throughput {
		floor, loop := r.find("floor", m), r.find("loop", m)
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%.0f\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t\n", m.Latency, m.InFlight, m.Program, m.Orders, m.PerSecond,
			ratio(m.PerSecond, floor.PerSecond, "%.0f %%", 100), ratio(m.PerSecond, loop.PerSecond, "%.1f", 1),
			m.CPU.Microseconds(), ratio(float64(m.CPU), float64(floor.CPU), "%.1f", 1), rig.Megabytes(m.PeakBytes),
			millis(m.FirstCharge), millis(m.Stop), m.Missing, m.Twice)
	}
}

// find is the figure to compare with: of the same provider and, but for the loop, as many in flight.
func (r *report) find(program string, with throughput) throughput {
	for _, t := range r.Throughput {
		if t.Program == program && t.Latency == with.Latency && (program == "loop" || t.InFlight == with.InFlight) {
			return t
		}
	}
	return throughput{}
}

func writeSpreads(t io.Writer, title string, all []spread) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(t, "\n%s\tcount\tleast\tp50\tp99\tmost\t\n", title)
	for _, s := range all {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t\n", s.Program, s.Count, millis(s.Least), millis(s.P50), millis(s.P99), millis(s.Most))
	}
}

func ratio(a, b float64, format string, scale float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf(format, scale*a/b)
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
