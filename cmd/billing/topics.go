package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// resultTopic is where the result events go.
const resultTopic = "billing.charges"

const (
	minRetention   = 7 * 24 * time.Hour // longer than the longest outage that must lose nothing
	messageBytes   = 1 << 20            // an order
	headerBudget   = 64 << 10           // what our headers and the foreign ones may add on the way (hazard H14)
	defaultParts   = 6
	topicsDeadline = 20 * time.Second
)

// wantedTopics are the topics that the service reads or writes. asked is their number of partitions; 0: nobody asked. Then
// the main topic has as many as its owner wants, tiers and dead letters should have no fewer, and results are left alone.
func wantedTopics(l retry.Ladder, asked int, existing map[string]kafkaclient.Topic) []kafkaclient.Wanted {
	parts := cmp.Or(asked, existing[l.Main()].Partitions, defaultParts)
	week := minRetention.Milliseconds()
	wanted := []kafkaclient.Wanted{{Name: l.Main(), Partitions: parts, MinRetention: week, MinMessageBytes: messageBytes}}
	for _, t := range l.Tiers() {
		wanted = append(wanted, kafkaclient.Wanted{Name: t.Topic, Partitions: parts, MinRetention: week, MinMessageBytes: messageBytes + headerBudget})
	}
	results := kafkaclient.Wanted{Name: resultTopic, Partitions: parts, MinRetention: week}
	if _, there := existing[resultTopic]; there {
		results.Partitions = asked
	}
	return append(wanted, kafkaclient.Wanted{Name: l.DeadLetters(), Partitions: parts, MinRetention: -1, MinMessageBytes: messageBytes + headerBudget}, results)
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
	cmd.AddCommand(plan, apply, newTopicsAcceptCommand(), newAcceptOffsetsCommand())
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
	plan, err := planTopics(ctx, admin, cfg.ladder(), asked)
	if err != nil {
		return err
	}
	return then(ctx, admin, plan)
}

func planTopics(ctx context.Context, admin *kafkaclient.Admin, l retry.Ladder, asked int) (kafkaclient.Plan, error) {
	brokers, err := admin.Brokers(ctx)
	if err != nil {
		return kafkaclient.Plan{}, err
	}
	existing, err := admin.Topics(ctx, append(l.Topics(), resultTopic), kafkaclient.PlanConfigs...)
	if err != nil {
		return kafkaclient.Plan{}, err
	}
	return kafkaclient.NewPlan(wantedTopics(l, asked, existing), existing, brokers), nil
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

func newTopicsAcceptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "accept", Short: "Take topics that were created again as they are now", Args: cobra.NoArgs,
		Long: "A topic that was deleted and created again starts at offset 0: what was committed, and what waited there, is gone. `serve` refuses to start then.\n" +
			"Find out what was lost (`billing reconcile` compares with the provider), stop all instances, then accept: the groups begin with the\n" +
			"first record that the topic holds.",
		Example: "  billing topics accept",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(slices.Concat(needsKafka, needsDatabase))
			if err != nil {
				return err
			}
			log := slog.New(slog.DiscardHandler)
			reader, ids, err := openTopics(cmd.Context(), cfg, cfg.ladder(), log)
			if err != nil {
				return err
			}
			defer reader.Close()
			store, pool, err := openStore(cmd.Context(), cfg, log)
			if err != nil {
				return err
			}
			defer pool.Close()
			return acceptTopics(cmd, cfg, reader.Admin, store, ids)
		},
	}
}

// acceptTopics rewinds first: an instance that had not noticed may have committed into the new topic what it had read of
// the old one, and records below that would never be read.
func acceptTopics(cmd *cobra.Command, cfg Config, admin *kafkaclient.Admin, store *pgstore.Store, ids topicIDs) error {
	ctx, ladder := cmd.Context(), cfg.ladder()
	err := store.KnowTopics(ctx, ids.incarnations(ladder))
	other, recreated := errors.AsType[*pgstore.RecreatedError](err)
	if err != nil && !recreated {
		return err
	}
	if !recreated {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing to accept")
		return nil
	}
	groups := map[string]string{ladder.Main(): cfg.Group}
	for _, t := range ladder.Tiers() {
		groups[t.Topic] = t.Group
	}
	for _, name := range other.Topics {
		if err := admin.Rewind(ctx, groups[name], name); err != nil {
			return err
		}
	}
	if err := store.AcceptTopics(ctx, ids.incarnations(ladder)); err != nil {
		return err
	}
	for _, name := range other.Topics {
		fmt.Fprintln(cmd.OutOrStdout(), "accepted", name)
	}
	return nil
}
