package main

import (
	"context"
	"sync"
	"syscall"
	"time"

	"example.com/billing/load/rig"
)

const (
	stopWithin   = 10 * time.Second // the promise
	stopSlack    = 2 * time.Second  // for a machine that is busy with other things
	restartPause = 300 * time.Millisecond
)

// instance is a place whose process is kept running while it is wanted.
type instance struct {
	*rig.Instance
	times *timeline

	mu      sync.Mutex
	wanted  bool
	p       *rig.Process
	changed chan struct{} // a token when wanted changed
	ending  bool          // the process is ended by us
	starts  int           // processes so far

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
		served := len(i.Served())
		p, err := i.launch()
		if err != nil {
			i.times.problem("%s does not start: %v", i.Name, err)
			return
		}
		<-p.Exited()
		i.mu.Lock()
		ours := i.ending
		i.p, i.ending = nil, false
		i.mu.Unlock()
		if !ours {
			i.endedByItself(p, len(i.Served()) > served)
		}
		rig.Pause(ctx, restartPause)
	}
}

func (i *instance) endedByItself(p *rig.Process, served bool) {
	if served {
		i.times.problem("%s (pid %d) ended by itself: %s", i.Name, p.PID(), p.Ended())
		return
	}
	i.times.note("%s could not start, is tried again", i.Name)
}

func (i *instance) launch() (*rig.Process, error) {
	p, err := i.Launch()
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.p = p
	i.starts++
	i.times.note("%s starts, pid %d", i.Name, p.PID())
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
func (i *instance) running() *rig.Process {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.p
}

// take is the process, to be ended by us.
func (i *instance) take() *rig.Process {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = false
	i.ending = i.p != nil
	return i.p
}

// kill ends the process as a power cut would.
func (i *instance) kill() {
	if p := i.take(); p != nil {
		p.Kill()
		i.times.note("%s killed", i.Name)
	}
}

// stop asks the process to end. In a healthy world it must end well; in any it must end in time.
func (i *instance) stop(healthy bool) {
	p := i.take()
	if p == nil {
		return
	}
	served := i.Addr() != ""
	took, err := p.Stop(stopWithin + stopSlack)
	code := p.Ended().ExitCode()
	i.times.note("%s stopped in %s, exit code %d", i.Name, took.Round(time.Millisecond), code)
	if err != nil {
		i.times.problem("%s: %v", i.Name, err)
	} else if healthy && served && code != 0 {
		i.times.problem("%s: exit code %d at a stop with nothing broken", i.Name, code)
	}
}

func (i *instance) freeze() {
	if p := i.running(); p != nil {
		p.Signal(syscall.SIGSTOP)
	}
}

func (i *instance) thaw() {
	if p := i.running(); p != nil {
		p.Signal(syscall.SIGCONT)
	}
}
