package rig

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Usage is what a process has taken of the machine. Threads count, children do not: no program here has any.
type Usage struct {
	CPU  time.Duration
	RSS  int // bytes, now
	Peak int // bytes, the most so far, as the kernel kept it
}

// UsageOf asks the kernel.
func UsageOf(pid int) (Usage, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return Usage{}, err
	}
	// The second field is the name in parentheses, which may hold spaces. utime and stime are fields 14 and 15.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return Usage{}, fmt.Errorf("%s/stat has %d fields", dir, len(fields))
	}
	user, err1 := strconv.Atoi(string(fields[11]))
	system, err2 := strconv.Atoi(string(fields[12]))
	if err1 != nil || err2 != nil {
		return Usage{}, fmt.Errorf("%s/stat has no processor times", dir)
	}
	return Usage{CPU: time.Duration(user+system) * tick, RSS: kilobytes(status, "VmRSS:"), Peak: kilobytes(status, "VmHWM:")}, nil
}

func kilobytes(status []byte, name string) int {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB"))) // 0 shows in the table
			return n << 10
		}
	}
	return 0
}

// Megabytes is how sizes are shown.
func Megabytes(bytes int) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }
