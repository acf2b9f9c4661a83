package main

import (
	"context"
	"strconv"
	"strings"

	"example.com/billing/load/bench/peers"
	"example.com/billing/load/rig"
)

// prepare makes the topics and the schema: those of the service with its own commands, as a user would.
func (t *trial) prepare(ctx context.Context) error {
	if t.program != "service" {
		_, err := t.lab.Admin.CreateTopic(ctx, partitions, -1, nil, t.topic)
		return err
	}
	return t.installation().Prepare(ctx, partitions)
}

// start runs the program that is measured.
func (t *trial) start() (err error) {
	if t.program == "service" {
		t.child, err = rig.Launch(t.log(t.program), t.installation().Environment(), t.lab.billing, "serve")
		return err
	}
	peer := peers.Config{
		Brokers: strings.Join(t.lab.Brokers, ","), Topic: t.topic, Group: t.group, DatabaseURL: t.database.URL, ProviderURL: t.ledger.URL, InFlight: t.inFlight,
	}
	t.child, err = rig.Launch(t.log(t.program), append(rig.Environment(), peer.Environment()...), t.lab.self, t.program)
	return err
}

func (t *trial) installation() rig.Installation {
	return rig.Installation{
		Binary: t.lab.billing, Brokers: t.lab.Brokers, Database: t.database.URL, Provider: strings.TrimPrefix(t.ledger.URL, "http://"),
		Topic: t.topic, Group: t.group, Settings: []string{"BILLING_CONCURRENCY=" + strconv.Itoa(t.inFlight), "BILLING_HTTP_ADDR=" + t.http},
	}
}
