package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// instance is one running `billing serve`.
type instance struct {
	w      *world
	cmd    *exec.Cmd
	log    *logBook
	exited chan struct{} // closed when the process has ended
	addr   string        // of its HTTP server
	ended  bool          // the test has ended it
}

// start starts an instance and returns when it serves.
func (w *world) start(settings ...string) *instance {
	w.t.Helper()
	i := &instance{w: w, log: &logBook{}, exited: make(chan struct{})}
	i.cmd = exec.Command(binary, "serve")
	i.cmd.Env = w.environ(settings...)
	i.cmd.Stdout, i.cmd.Stderr = i.log, i.log
	require.NoError(w.t, i.cmd.Start())
	go func() {
		_ = i.cmd.Wait() // how it ended is in its ProcessState
		close(i.exited)
	}()
	w.t.Cleanup(i.cleanUp)
	*w.serving = append(*w.serving, i)
	w.await(i.findAddr, "billing serves")
	return i
}

func (i *instance) findAddr() bool {
	line := i.log.find("billing serves")
	if line == nil {
		return false
	}
	i.addr, _ = line["http"].(string)
	return i.addr != ""
}

func (i *instance) running() bool {
	select {
	case <-i.exited:
		return false
	default:
		return true
	}
}

// kill9 ends the process as a power cut would.
func (i *instance) kill9() {
	i.w.t.Helper()
	require.True(i.w.t, i.running(), "it had ended by itself")
	i.ended = true
	require.NoError(i.w.t, i.cmd.Process.Kill())
	<-i.exited
}

// stop asks the process to end, as an orchestrator does.
func (i *instance) stop() {
	i.w.t.Helper()
	require.Zero(i.w.t, i.end(), "exit code")
}

// end is a stop whatever the exit code: 1 when something could not be ended in order.
func (i *instance) end() (code int) {
	i.w.t.Helper()
	asked := time.Now()
	i.ended = true
	require.NoError(i.w.t, i.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-i.exited:
	case <-time.After(12 * time.Second):
		require.FailNow(i.w.t, "did not stop within 10 s")
	}
	require.Less(i.w.t, time.Since(asked), 10*time.Second)
	require.True(i.w.t, i.cmd.ProcessState.Exited(), "%v", i.cmd.ProcessState)
	return i.cmd.ProcessState.ExitCode()
}

// cleanUp ends what still runs. Whatever the test was about, the log must be clean.
func (i *instance) cleanUp() {
	if i.running() {
		_ = i.cmd.Process.Kill() // it may end by itself just now
		<-i.exited
	}
	i.w.checkLog(i.log.text())
	for text := range strings.Lines(i.log.text()) {
		if !json.Valid([]byte(text)) && !strings.HasPrefix(text, "billing: ") {
			i.w.t.Errorf("a log line is not JSON: %s", text)
		}
	}
	if i.w.t.Failed() {
		i.w.t.Logf("log of process %d, which ended with %v:\n%s", i.cmd.Process.Pid, i.cmd.ProcessState, i.log.tail(40_000))
	}
}

var (
	uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	logSecrets  = []string{providerToken, operatorToken, viewerToken, marker}
)

// checkLog holds for every log of every test: no secret, no payload, no idempotency key, no panic, no race.
func (w *world) checkLog(log string) {
	for _, secret := range append([]string{w.customer.String(), "DATA RACE", "panic:"}, logSecrets...) {
		if strings.Contains(log, secret) {
			w.t.Errorf("a log contains %q", secret)
		}
	}
	keys := w.provider.keys()
	for _, id := range uuidPattern.FindAllString(log, -1) {
		if keys[id] {
			w.t.Errorf("a log contains the idempotency key %s", id)
		}
	}
}

// ready asks /readyz, and returns the details of what is not ready.
func (i *instance) ready() (ok bool, reasons string) {
	i.w.t.Helper()
	status, body := i.call(http.MethodGet, "/readyz", viewerToken, "")
	var answer struct {
		Parts []struct{ Name, Detail string }
	}
	require.NoError(i.w.t, json.Unmarshal(body, &answer))
	for _, p := range answer.Parts {
		if p.Detail != "" {
			reasons += p.Name + ": " + p.Detail + "\n"
		}
	}
	return status == http.StatusOK, reasons
}

// awaitHeld waits until the line is held for the reason, and readiness says so. A pause is what a person wants: it is ready.
func (i *instance) awaitHeld(reason string) {
	i.w.t.Helper()
	i.w.await(func() bool {
		ok, reasons := i.ready()
		return ok == strings.HasPrefix(reason, "operator_pause") && strings.Contains(reasons, "line: held for") && strings.Contains(reasons, ": "+reason)
	}, "the line is held for %s", reason)
}

func (i *instance) awaitReady() {
	i.w.t.Helper()
	i.w.await(func() bool { ok, _ := i.ready(); return ok }, "ready")
}

// metric is the sum of the metric's series that have this label.
func (i *instance) metric(name, label string) (sum float64) {
	i.w.t.Helper()
	_, text := i.call(http.MethodGet, "/metrics", "", "")
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(series, name+"{") && strings.Contains(series, label) {
			v, err := strconv.ParseFloat(value, 64)
			require.NoError(i.w.t, err)
			sum += v
		}
	}
	return sum
}

// call makes a request to the instance.
func (i *instance) call(method, path, token, body string) (status int, answer []byte) {
	i.w.t.Helper()
	req, err := http.NewRequestWithContext(i.w.t.Context(), method, "http://"+i.addr+path, strings.NewReader(body))
	require.NoError(i.w.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if method != http.MethodGet {
		req.Header.Set("Idempotency-Key", uuid.NewString())
	}
	client := http.Client{Timeout: 20 * time.Second}
	res, err := client.Do(req)
	require.NoError(i.w.t, err)
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	require.NoError(i.w.t, err)
	return res.StatusCode, answer
}

// logBook keeps what a process writes.
type logBook struct {
	mu   sync.Mutex
	book bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.Write(p)
}

func (l *logBook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.String()
}

func (l *logBook) tail(limit int) string {
	text := l.text()
	return text[max(0, len(text)-limit):]
}

// find is the first line with this message, nil when there is none.
func (l *logBook) find(msg string) map[string]any {
	for _, line := range l.lines() {
		if line["msg"] == msg {
			return line
		}
	}
	return nil
}

// lines are those in JSON: all but what a dying process says.
func (l *logBook) lines() (lines []map[string]any) {
	for text := range strings.Lines(l.text()) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil {
			lines = append(lines, line)
		}
	}
	return lines
}
