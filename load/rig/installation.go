package rig

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"example.com/billing/load/netcut"
)

// Installation is one set of servers, topics and settings that instances of the service share.
type Installation struct {
	Binary   string
	Brokers  []string // host:port
	Database string   // URL
	Provider string   // host:port
	Topic    string
	Group    string
	Settings []string // more, as NAME=value
}

// Build builds the service into a directory.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "billing")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "example.com/billing/cmd/billing").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the service: %w\n%s", err, out)
	}
	return binary, nil
}

// TempDir makes a directory that the user Postgres runs as can reach.
func TempDir(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// Prepare lets the service's own commands make schema and topics, as a user would.
func (in Installation) Prepare(ctx context.Context, partitions int) error {
	for _, args := range [][]string{{"migrate", "up"}, {"topics", "apply", "--partitions", fmt.Sprint(partitions)}} {
		if out, err := in.Run(ctx, args...); err != nil {
			return fmt.Errorf("billing %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// Run runs a command of the service to its end.
func (in Installation) Run(ctx context.Context, args ...string) (output string, err error) {
	cmd := exec.CommandContext(ctx, in.Binary, args...)
	cmd.Env = in.Environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Environment of an instance that reaches the servers directly.
func (in Installation) Environment() []string {
	return append(append(Environment(),
		"BILLING_KAFKA_BROKERS="+strings.Join(in.Brokers, ","), "BILLING_DATABASE_URL="+in.Database, "BILLING_PROVIDER_URL=http://"+in.Provider,
		"BILLING_TOPIC="+in.Topic, "BILLING_GROUP="+in.Group, "BILLING_HTTP_ADDR=127.0.0.1:0",
	), in.Settings...)
}

// Place makes a place for an instance, with links of its own; its log is in the directory.
func (in Installation) Place(name, dir string) (i *Instance, err error) {
	i = &Instance{Name: name, Binary: in.Binary, Log: filepath.Join(dir, name+".log")}
	defer func() {
		if err != nil {
			i.CloseLinks()
		}
	}()
	database, err := url.Parse(in.Database)
	if err != nil {
		return nil, errors.New("the database URL cannot be parsed")
	}
	if i.Brokers, err = netcut.OpenCluster(in.Brokers); err != nil {
		return nil, err
	}
	if i.Postgres, err = netcut.Open(database.Host); err != nil {
		return nil, err
	}
	if i.Provider, err = netcut.Open(in.Provider); err != nil {
		return nil, err
	}
	through := in
	through.Brokers = nil
	for _, l := range i.Brokers.Links() {
		through.Brokers = append(through.Brokers, l.Addr)
	}
	database.Host = i.Postgres.Addr
	through.Database, through.Provider = database.String(), i.Provider.Addr
	i.Env = through.Environment()
	return i, nil
}
