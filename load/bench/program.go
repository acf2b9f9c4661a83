package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"

	"example.com/billing/load/bench/peers"
)

// prepare makes the topics and the schema: those of the service with its own commands, as a user would.
func (t *trial) prepare(ctx context.Context) error {
	if t.program != "service" {
		_, err := t.lab.admin.CreateTopic(ctx, partitions, -1, nil, t.topic)
		return err
	}
	for _, args := range [][]string{{"migrate", "up"}, {"topics", "apply", "--partitions", strconv.Itoa(partitions)}} {
		cmd := exec.CommandContext(ctx, t.lab.billing, args...)
		cmd.Env = append(cmd.Environ(), t.environment()...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("billing %v: %w\n%s", args, err, out)
		}
	}
	return nil
}

// start runs the program that is measured.
func (t *trial) start() (err error) {
	if t.program == "service" {
		t.child, err = start(t.lab.dir, t.program, t.environment(), t.lab.billing, "serve")
	} else {
		t.child, err = start(t.lab.dir, t.program, t.environment(), t.lab.self, t.program)
	}
	return err
}

func (t *trial) environment() []string {
	if t.program == "service" {
		return []string{
			"BILLING_KAFKA_BROKERS=" + t.lab.brokers, "BILLING_TOPIC=" + t.topic, "BILLING_GROUP=" + t.group,
			"BILLING_DATABASE_URL=" + t.database, "BILLING_PROVIDER_URL=" + t.ledger.URL,
			"BILLING_CONCURRENCY=" + strconv.Itoa(t.inFlight), "BILLING_HTTP_ADDR=" + t.http,
		}
	}
	return peers.Config{
		Brokers: t.lab.brokers, Topic: t.topic, Group: t.group, DatabaseURL: t.database, ProviderURL: t.ledger.URL, InFlight: t.inFlight,
	}.Environment()
}
