package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopWithin is how long a child may take to stop before it is killed.
const stopWithin = 20 * time.Second

// child is a process that this one started.
type child struct {
	name    string
	cmd     *exec.Cmd
	started time.Time
	log     string
	done    chan struct{}
	err     error // once done
}

// start runs a program with its output in a file of the log directory. Settings of the service that happen to stand in
// the user's environment do not reach it.
func start(logs, name string, env []string, path string, args ...string) (*child, error) {
	c, file, err := newChild(logs, name, env, path, args...)
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout = file
	return c, c.run(file)
}

// startServer runs a program that prints its address as its first line.
func startServer(ctx context.Context, logs, name, path string, args ...string) (*child, string, error) {
	c, file, err := newChild(logs, name, nil, path, args...)
	if err != nil {
		return nil, "", err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, "", err
	}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(io.TeeReader(out, file)).ReadString('\n')
		line <- strings.TrimSpace(text)
		c.wait(file)
	}()
	select {
	case address := <-line:
		if address == "" {
			return nil, "", fmt.Errorf("%s did not start, see %s", name, c.log)
		}
		return c, address, nil
	case <-ctx.Done():
		return nil, "", errors.Join(ctx.Err(), c.stop())
	}
}

func newChild(logs, name string, env []string, path string, args ...string) (*child, *os.File, error) {
	file, err := os.CreateTemp(logs, name+"-*.log")
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(path, args...) //nolint:noctx // stopped by a signal, and then waited for
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "BILLING_") && !strings.HasPrefix(e, "PEER_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = file
	// Ctrl-C on the terminal is for us alone: we stop the children in our order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return &child{name: name, cmd: cmd, log: filepath.Clean(file.Name()), done: make(chan struct{})}, file, nil
}

func (c *child) run(file *os.File) error {
	c.started = time.Now()
	if err := c.cmd.Start(); err != nil {
		return errors.Join(err, file.Close())
	}
	go c.wait(file)
	return nil
}

func (c *child) wait(file *os.File) {
	c.err = errors.Join(c.cmd.Wait(), file.Close())
	close(c.done)
}

// stop ends the child and waits for it.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	select {
	case <-c.done:
	case <-time.After(stopWithin):
		_ = c.cmd.Process.Kill() // waited for below
		<-c.done
		return fmt.Errorf("%s did not stop within %s", c.name, stopWithin)
	}
	return c.failure()
}

// failure is why a child that has ended did so.
func (c *child) failure() error {
	select {
	case <-c.done:
		if c.err != nil {
			return fmt.Errorf("%s: %w, see %s", c.name, c.err, c.log)
		}
	default:
	}
	return nil
}
