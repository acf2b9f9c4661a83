package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// resultTopic is where the result events go.
const resultTopic = "billing.charges"

const (
	newRetention = 7 * 24 * time.Hour // of a topic that we create, unless it needs more
	messageBytes = 1 << 20            // an order
	// Kafka's default for a topic is a message of 1 MiB and the frame around it.
	kafkasMessageBytes = messageBytes + 12
	headerBudget       = 64 << 10 // what our headers and the foreign ones may add on the way (hazard H14)
	defaultParts       = 6
	topicsDeadline     = 20 * time.Second
)

// wantedTopics are the topics that the service reads or writes. asked is their number of partitions; 0: nobody asked. Then
// the main topic has as many as its owner wants, tiers and dead letters should have no fewer, and results are left alone.
//
// A record must outlast its delay and the longest outage after it (hazard H29). What the main topic takes must fit into
// the others with the headers that it gets on the way.
func wantedTopics(l retry.Ladder, outage time.Duration, asked int, existing map[string]kafkaclient.Topic) []kafkaclient.Wanted {
	parts := cmp.Or(asked, existing[l.Main()].Partitions, defaultParts)
	kept := func(name string, delay time.Duration, bytes int64) kafkaclient.Wanted {
		return kafkaclient.Wanted{
			Name: name, Partitions: parts, MinRetention: (delay + outage).Milliseconds(), NewRetention: newRetention.Milliseconds(), MinMessageBytes: bytes,
		}
	}
	largest := int64(messageBytes)
	if size, err := existing[l.Main()].ConfigInt("max.message.bytes"); err == nil && size > kafkasMessageBytes {
		largest = size
	}
	wanted := []kafkaclient.Wanted{kept(l.Main(), 0, messageBytes)}
	for _, t := range l.Tiers() {
		wanted = append(wanted, kept(t.Topic, t.Delay, largest+headerBudget))
	}
	letters := kafkaclient.Wanted{Name: l.DeadLetters(), Partitions: parts, MinRetention: -1, MinMessageBytes: largest + headerBudget}
	results := kept(resultTopic, 0, 0)
	if _, there := existing[resultTopic]; there {
		results.Partitions = asked
	}
	return append(wanted, letters, results)
}

func newTopicsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "topics", Short: "Compare the topics with what the service needs, and create what is missing", Example: "  billing topics plan"}
	plan := &cobra.Command{
		Use: "plan", Short: "Print what is missing or otherwise than wanted; exit code 3 if anything is", Args: cobra.NoArgs,
		Long:    "Topics with more partitions than wanted are as wanted.",
		Example: "  billing topics plan\n  billing topics plan --partitions 12   # and tell of topics with fewer",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTopicPlan(cmd, func(_ context.Context, _ *kafkaclient.Admin, p kafkaclient.Plan) error {
				if printPlan(cmd.OutOrStdout(), p) {
					return errDifferences
				}
				fmt.Fprintln(cmd.OutOrStdout(), "all topics are as wanted")
				return nil
			})
		},
	}
	apply := &cobra.Command{
		Use: "apply", Short: "Create the topics that are missing; existing ones are never changed", Args: cobra.NoArgs,
		Example: "  billing topics apply --partitions 12",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTopicPlan(cmd, func(ctx context.Context, admin *kafkaclient.Admin, p kafkaclient.Plan) error {
				printPlan(cmd.OutOrStdout(), p)
				if err := createTopics(ctx, admin, p.Create); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d created\n", len(p.Create))
				return nil
			})
		},
	}
	for _, c := range []*cobra.Command{plan, apply} {
		c.Flags().Int(partitionsFlag, 0, fmt.Sprintf("partitions of the topics (default: as many as the main topic has, or %d)", defaultParts))
	}
	cmd.AddCommand(plan, apply, newTopicsAcceptCommand(), newAcceptOffsetsCommand(), newAcceptDeletedCommand(), newTopicsDrainCommand())
	return cmd
}

const partitionsFlag = "partitions"

// createTopics returns when the brokers know the topics: what starts next would otherwise not find them.
func createTopics(ctx context.Context, admin *kafkaclient.Admin, topics []kafkaclient.Topic) error {
	var names []string
	for _, t := range topics {
		if err := admin.Create(ctx, t); err != nil {
			return err
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return nil
	}
	_, err := findTopics(ctx, admin, names, topicsDeadline)
	return err
}

// withTopicPlan compares the cluster with the settings and the flag.
func withTopicPlan(cmd *cobra.Command, then func(context.Context, *kafkaclient.Admin, kafkaclient.Plan) error) error {
	cfg, err := loadConfig(needsKafka)
	if err != nil {
		return err
	}
	asked, err := cmd.Flags().GetInt(partitionsFlag)
	if err != nil {
		return err
	}
	if asked < 1 && cmd.Flags().Changed(partitionsFlag) {
		return &usageError{[]string{"--partitions must be at least 1"}}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), topicsDeadline)
	defer cancel()
	admin, err := kafkaclient.NewAdmin(cfg.kafka())
	if err != nil {
		return err
	}
	defer admin.Close()
	plan, err := planTopics(ctx, admin, cfg, asked)
	if err != nil {
		return err
	}
	return then(ctx, admin, plan)
}

func planTopics(ctx context.Context, admin *kafkaclient.Admin, cfg Config, asked int) (kafkaclient.Plan, error) {
	cluster, err := admin.Cluster(ctx)
	if err != nil {
		return kafkaclient.Plan{}, err
	}
	l := cfg.ladder()
	existing, err := admin.Topics(ctx, append(l.Topics(), resultTopic), kafkaclient.PlanConfigs...)
	if err != nil {
		return kafkaclient.Plan{}, err
	}
	return kafkaclient.NewPlan(wantedTopics(l, cfg.LongestOutage, asked, existing), existing, cluster.Brokers), nil
}

// printPlan reports whether there was anything to print.
func printPlan(w io.Writer, p kafkaclient.Plan) bool {
	for _, t := range p.Create {
		fmt.Fprintf(w, "create %s: %d partitions, replication %d\n", t.Name, t.Partitions, t.Replication)
	}
	for _, d := range p.Differ {
		fmt.Fprintln(w, "differs", d)
	}
	return len(p.Create)+len(p.Differ) > 0
}
