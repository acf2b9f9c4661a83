package main

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// timeline is what happened in a round, for the one who must understand a failure.
type timeline struct {
	began time.Time

	mu       sync.Mutex
	lines    []string
	problems []string // what is wrong whatever the orders' fate
}

func (t *timeline) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(format, args...)
}

func (t *timeline) add(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf("%s %6.2fs %s", time.Now().Format("15:04:05.000"), time.Since(t.began).Seconds(), fmt.Sprintf(format, args...)))
}

// problem is a note that fails the round.
func (t *timeline) problem(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add("PROBLEM: "+format, args...)
	t.problems = append(t.problems, fmt.Sprintf(format, args...))
}

func (t *timeline) found() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string{}, t.problems...)
}

func (t *timeline) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n") + "\n"
}
