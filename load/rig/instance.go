package rig

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"example.com/billing/load/netcut"
)

// Instance is a place for one `billing serve`, behind network links of its own. Its process comes and goes.
type Instance struct {
	Name   string
	Binary string
	Env    []string
	Log    string

	Brokers  *netcut.Cluster
	Postgres *netcut.Link
	Provider *netcut.Link
}

// Linked are what an instance has links to.
func Linked() []string { return []string{"broker", "postgres", "provider"} }

// Launch starts the service.
func (i *Instance) Launch() (*Process, error) { return Launch(i.Log, i.Env, i.Binary, "serve") }

// Served are the log lines of processes that came to serve.
func (i *Instance) Served() (lines []map[string]any) {
	text, err := os.ReadFile(i.Log)
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

// Addr is the HTTP address of the process that came to serve last; empty when none did.
func (i *Instance) Addr() string {
	lines := i.Served()
	if len(lines) == 0 {
		return ""
	}
	addr, _ := lines[len(lines)-1]["http"].(string)
	return addr
}

// Get asks the process that came to serve last.
func (i *Instance) Get(ctx context.Context, path string) (status int, body string, err error) {
	return i.ask(ctx, http.MethodGet, path, nil, "")
}

// Post sends JSON to the process that came to serve last, as the one who has the token.
func (i *Instance) Post(ctx context.Context, path, token string, body any) (status int, answer string, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, "", err
	}
	return i.ask(ctx, http.MethodPost, path, text, token)
}

func (i *Instance) ask(ctx context.Context, method, path string, body []byte, token string) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+i.Addr()+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", rand.Text())
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// Metric reads one figure by its name, labels included.
func (i *Instance) Metric(ctx context.Context, name string) (float64, error) {
	_, text, err := i.Get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("no metric " + name)
}

// Break sets the fault of the links to one of Linked.
func (i *Instance) Break(to string, f netcut.Fault) error {
	for _, l := range i.links(to) {
		if err := l.Set(f); err != nil {
			return err
		}
	}
	return nil
}

// Heal ends the faults of all links.
func (i *Instance) Heal() (err error) {
	for _, to := range Linked() {
		err = errors.Join(err, i.Break(to, netcut.Fault{Kind: netcut.None}))
	}
	return err
}

func (i *Instance) links(to string) []*netcut.Link {
	switch to {
	case "broker":
		return i.Brokers.Links()
	case "postgres":
		return []*netcut.Link{i.Postgres}
	default:
		return []*netcut.Link{i.Provider}
	}
}

// Connections that are open through the links.
func (i *Instance) Connections() (n int) {
	for _, to := range Linked() {
		for _, l := range i.links(to) {
			n += l.Connections()
		}
	}
	return n
}

// CloseLinks ends the links that there are.
func (i *Instance) CloseLinks() {
	if i.Brokers != nil {
		i.Brokers.Close()
	}
	for _, l := range []*netcut.Link{i.Postgres, i.Provider} {
		if l != nil {
			l.Close()
		}
	}
}
