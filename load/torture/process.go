package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a child of ours, with its output in a file.
type process struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{} // closed when it has ended
}

// launch starts a program. What it writes is appended to the log.
func launch(log string, env []string, path string, args ...string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path, args...), log: file, exited: make(chan struct{})} //nolint:noctx // it ends by signals
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

// signal to a process that has ended is no error: that is for others to notice.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends the process as a power cut would, frozen or not.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// stop asks the process to end and says how long that took; one that does not is killed.
func (p *process) stop(within time.Duration) (time.Duration, error) {
	asked := time.Now()
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.exited:
		return time.Since(asked), nil
	case <-timer.C:
		p.kill()
		return within, fmt.Errorf("did not end within %s of SIGTERM", within)
	}
}
