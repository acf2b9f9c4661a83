package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/telemetry"
)

func newTopicsDrainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "drain TOPIC", Short: "Hand the orders of a topic that is not read any more on to the retry topics of these settings", Args: cobra.ExactArgs(1),
		Long: "A retry topic of other delays, or another main topic, may still hold orders when the settings change: `serve` refuses to start then.\n" +
			"drain reads such a topic to its end, in the group that has read it so far. Each order goes to the first retry topic of the present\n" +
			"settings that fits its due time, with its count of failures; the offset moves when the brokers have acknowledged that. Nothing is\n" +
			"charged here. It may run while the service runs, beside another drain, and again after it was killed: an order that was handed on\n" +
			"twice is charged once.",
		Example: "  BILLING_RETRY_DELAYS=10s,1m billing topics drain orders.confirmed.retry-5s",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadConfig(slices.Concat(needsKafka, needsDatabase))
			if err != nil {
				return err
			}
			log, err := telemetry.NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
			if err != nil {
				return err
			}
			handed, err := drainTopic(cmd.Context(), cfg, args[0], log)
			if handed > 0 || err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%d orders of %s handed on\n", handed, args[0])
			}
			return err
		},
	}
}

// drainTopic opens what a drain needs, and drains.
func drainTopic(ctx context.Context, cfg Config, name string, log *slog.Logger) (handed int64, err error) {
	ladder := cfg.ladder()
	if slices.Contains(append(ladder.Topics(), resultTopic), name) {
		return 0, &usageError{[]string{fmt.Sprintf("%s is a topic of these settings: `billing serve` reads it, there is nothing to drain", name)}}
	}
	reader, ids, err := openTopics(ctx, cfg, ladder, log)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	store, pool, err := openStore(ctx, cfg, log)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	cluster, err := reader.Cluster(ctx)
	if err != nil {
		return 0, err
	}
	here := cfg.installation()
	here.Cluster = cluster.ID
	if err := store.CheckPin(ctx, here); err != nil {
		return 0, err
	}
	if err := ids.addKnown(ctx, store); err != nil {
		return 0, err
	}
	left := leftBehind{reader, store, ladder, cfg.Group}
	topic, err := left.find(ctx, name)
	if err != nil {
		return 0, err
	}
	ids[name] = topic.ID
	producer, err := kafkaclient.NewProducer(cfg.kafka(), log)
	if err != nil {
		return 0, err
	}
	defer producer.Close(time.Second)
	d := newDrain(cfg, topic, producer, books{store, deadletter.NewList(pool), ids, name}, log)
	return d.run(ctx, left)
}

// find is the topic if it is one of ours that these settings do not read.
func (b leftBehind) find(ctx context.Context, name string) (t pgstore.KnownTopic, err error) {
	all, err := b.candidates(ctx)
	if err != nil {
		return t, err
	}
	var names []string
	for _, t := range all {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return t, &usageError{[]string{fmt.Sprintf("%s does not exist or was never read by this service; topics that these settings do not read any more: %s", name, strings.Join(names, ", "))}}
}
