package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"sync"
	"syscall"
	"time"

	"example.com/billing/load/torture/netcut"
)

const (
	stopWithin   = 10 * time.Second // the promise
	stopSlack    = 2 * time.Second  // for a machine that is busy with other things
	restartPause = 300 * time.Millisecond
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

	atStart weight // of the first process, before any order
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
