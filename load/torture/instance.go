package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/billing/load/torture/netcut"
)

const (
	stopWithin   = 10 * time.Second // the promise
	stopSlack    = 2 * time.Second  // for a machine that is busy with other things
	restartPause = 300 * time.Millisecond
	maxPeakKB    = 200 << 10
)

// instance is a place for one `billing serve`, with network links of its own. Its process comes and goes.
type instance struct {
	name   string
	binary string
	env    []string
	log    string
	times  *timeline

	brokers  *netcut.Cluster
	postgres *netcut.Link
	provider *netcut.Link

	mu      sync.Mutex
	wanted  bool
	p       *process
	changed chan struct{} // a token when wanted changed
	ending  bool          // the process is ended by us

	baseline usage // of the first process, before any order
	busyline int   // its goroutines
}

// keep runs a process while one is wanted, as an orchestrator does. A process that ends by itself once it served is a
// problem; one that cannot start while things are broken is tried again.
func (i *instance) keep(ctx context.Context) {
	for ctx.Err() == nil {
		i.mu.Lock()
		wanted := i.wanted
		i.mu.Unlock()
		if !wanted {
			select {
			case <-i.changed:
			case <-ctx.Done():
			}
			continue
		}
		served := len(i.served())
		p, err := i.launch()
		if err != nil {
			i.times.problem("%s does not start: %v", i.name, err)
			return
		}
		<-p.exited
		i.mu.Lock()
		ours := i.ending
		i.p, i.ending = nil, false
		i.mu.Unlock()
		if !ours {
			i.endedByItself(p, len(i.served()) > served)
		}
		pause(ctx, restartPause)
	}
}

func (i *instance) endedByItself(p *process, served bool) {
	if served {
		i.times.problem("%s (pid %d) ended by itself: %s", i.name, p.cmd.Process.Pid, p.cmd.ProcessState)
		return
	}
	i.times.note("%s could not start, is tried again", i.name)
}

func (i *instance) launch() (*process, error) {
	p, err := launch(i.log, i.env, i.binary, "serve")
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.p = p
	i.times.note("%s starts, pid %d", i.name, p.cmd.Process.Pid)
	return p, nil
}

// want says whether a process should run. One that does runs on until it is ended.
func (i *instance) want(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = on
	select {
	case i.changed <- struct{}{}:
	default:
	}
}

// running is the process, nil when there is none.
func (i *instance) running() *process {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.p
}

// take is the process, to be ended by us.
func (i *instance) take() *process {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = false
	i.ending = i.p != nil
	return i.p
}

// kill ends the process as a power cut would.
func (i *instance) kill() {
	if p := i.take(); p != nil {
		p.kill()
		i.times.note("%s killed", i.name)
	}
}

// stop asks the process to end. In a healthy world it must end well; in any it must end in time.
func (i *instance) stop(healthy bool) {
	p := i.take()
	if p == nil {
		return
	}
	served := i.addr() != ""
	took, err := p.stop(stopWithin + stopSlack)
	code := p.cmd.ProcessState.ExitCode()
	i.times.note("%s stopped in %s, exit code %d", i.name, took.Round(time.Millisecond), code)
	if err != nil {
		i.times.problem("%s: %v", i.name, err)
	} else if healthy && served && code != 0 {
		i.times.problem("%s: exit code %d at a stop with nothing broken", i.name, code)
	}
}

func (i *instance) freeze() {
	if p := i.running(); p != nil {
		p.signal(syscall.SIGSTOP)
	}
}

func (i *instance) thaw() {
	if p := i.running(); p != nil {
		p.signal(syscall.SIGCONT)
	}
}

// served are the log lines of processes that came to serve.
func (i *instance) served() (lines []map[string]any) {
	text, err := os.ReadFile(i.log)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		var l map[string]any
		if bytes.Contains(line, []byte(`"billing serves"`)) && json.Unmarshal(line, &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// addr is the HTTP address of the process that came to serve last.
func (i *instance) addr() string {
	lines := i.served()
	if len(lines) == 0 {
		return ""
	}
	addr, _ := lines[len(lines)-1]["http"].(string)
	return addr
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

// weigh is what the process holds now.
func (i *instance) weigh(ctx context.Context) (u usage, goroutines int, err error) {
	p := i.running()
	if p == nil {
		return u, 0, fmt.Errorf("%s does not run", i.name)
	}
	if u, err = usageOf(p.cmd.Process.Pid); err != nil {
		return u, 0, err
	}
	n, err := i.metric(ctx, "go_goroutines")
	return u, int(n), err
}

// links are all of the instance's, by the names that faults have.
func (i *instance) links(to string) []*netcut.Link {
	switch to {
	case "broker":
		return i.brokers.Links()
	case "postgres":
		return []*netcut.Link{i.postgres}
	default:
		return []*netcut.Link{i.provider}
	}
}

// connections that are open through the links.
func (i *instance) connections() (n int) {
	for _, to := range []string{"broker", "postgres", "provider"} {
		for _, l := range i.links(to) {
			n += l.Connections()
		}
	}
	return n
}

func (i *instance) closeLinks() {
	i.brokers.Close()
	i.postgres.Close()
	i.provider.Close()
}
