package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// weight is what a process holds.
type weight struct{ files, goroutines, peakKB int }

// Bounds of what an instance may hold at rest above what it held at its start: idle connections to the provider and the
// database, each with its goroutines, are not yet closed.
const (
	moreFiles      = concurrency + 24
	filesPerBroker = 12 // the clients of an instance, two connections each
	moreGoroutines = 4*concurrency + 48
	maxPeakKB      = 200 << 10
)

// weighAtRest looks for leaks.
func (s *stage) weighAtRest(ctx context.Context) {
	for _, i := range s.crew {
		w, err := i.weigh(ctx)
		switch {
		case err != nil:
			s.times.problem("%s cannot be weighed: %v", i.name, err)
		case w.files > i.atStart.files+moreFiles+filesPerBroker*len(s.kafka.addresses()):
			s.times.problem("%s has %d files open at rest, %d at its start", i.name, w.files, i.atStart.files)
		case w.goroutines > i.atStart.goroutines+moreGoroutines:
			s.times.problem("%s has %d goroutines at rest, %d at its start", i.name, w.goroutines, i.atStart.goroutines)
		case w.peakKB > maxPeakKB:
			s.times.problem("%s took %d MB at its peak", i.name, w.peakKB>>10)
		}
	}
}

// weigh asks the kernel, and the process for its goroutines.
func (i *instance) weigh(ctx context.Context) (w weight, err error) {
	p := i.running()
	if p == nil {
		return w, fmt.Errorf("%s does not run", i.name)
	}
	if w, err = weightOf(p.cmd.Process.Pid); err != nil {
		return w, err
	}
	n, err := i.metric(ctx, "go_goroutines")
	w.goroutines = int(n)
	return w, err
}

func weightOf(pid int) (w weight, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	files, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return w, err
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return w, err
	}
	w.files = len(files)
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			w.peakKB, err = strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
		}
	}
	return w, err
}

// metric reads one figure without labels.
func (i *instance) metric(ctx context.Context, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+i.addr()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(res.Body); err != nil {
		return 0, err
	}
	for line := range strings.Lines(text.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("no metric " + name)
}
