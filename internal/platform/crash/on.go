//go:build crashpoints

package crash

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Variable names the step at which the process dies, and at which passing of it: "after-claim" or "after-claim:3".
const Variable = "BILLING_CRASH_AT"

// passed counts the passings of the step. The process is the test's, so this is its state.
var passed atomic.Int64

var wanted = sync.OnceValues(func() (string, int64) {
	step, count, counted := strings.Cut(os.Getenv(Variable), ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if !counted || err != nil {
		n = 1
	}
	return step, n
})

// At kills the process if this is the step that was asked for. No deferred call runs, no buffer is flushed.
func At(step string) {
	if want, n := wanted(); step != want || passed.Add(1) != n {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // a process may always signal itself
	select {}
}
