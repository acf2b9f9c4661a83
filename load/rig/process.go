package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is a child of ours, with its output in a file.
type Process struct {
	Log     string
	Started time.Time

	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
}

// Launch starts a program. What it writes is appended to the log.
func Launch(log string, env []string, path string, args ...string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{Log: log, Started: time.Now(), cmd: exec.Command(path, args...), exited: make(chan struct{})} //nolint:noctx // it ends by signals
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // a Ctrl-C is ours to pass on
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), file.Close())
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its ProcessState
		_ = file.Close()
		close(p.exited)
	}()
	return p, nil
}

// Environment is ours without any settings of the service or of a benchmark's peer that may be there.
func Environment() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "BILLING_") && !strings.HasPrefix(e, "OTEL_") && !strings.HasPrefix(e, "PEER_") {
			env = append(env, e)
		}
	}
	return env
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Ended says how a process that has exited did so.
func (p *Process) Ended() *os.ProcessState { return p.cmd.ProcessState }

// Signal to a process that has ended is no error: that is for others to notice.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill ends the process as a power cut would, frozen or not.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.exited
}

// Stop asks the process to end and says how long that took; one that does not is killed.
func (p *Process) Stop(within time.Duration) (time.Duration, error) {
	asked := time.Now()
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.exited:
		return time.Since(asked), nil
	case <-timer.C:
		p.Kill()
		return within, fmt.Errorf("did not end within %s of SIGTERM, see %s", within, p.Log)
	}
}

// Failure is why a process that has ended did so; nil when it runs or ended well.
func (p *Process) Failure() error {
	select {
	case <-p.exited:
		if !p.Ended().Success() {
			return fmt.Errorf("%s, see %s", p.Ended(), p.Log)
		}
	default:
	}
	return nil
}
