package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// refuseBlank refuses an empty database under a group that has committed offsets: it cannot know what became of the records
// below them (hazard H27). Nothing has been written into it by then.
func refuseBlank(ctx context.Context, cfg Config, l retry.Ladder, admin *kafkaclient.Admin, store *pgstore.Store) error {
	blank, err := store.Blank(ctx)
	if err != nil || !blank {
		return err
	}
	committed, err := committedOf(ctx, admin, cfg.Group, l.Main())
	if err != nil {
		return err
	}
	starts, err := admin.Starts(ctx, l.Main())
	if err != nil {
		return err
	}
	var records int64 // that the topic still holds: a group that was set to the earliest has none
	for p, next := range committed {
		records += max(0, next-starts[p])
	}
	if records == 0 {
		return nil
	}
	return fmt.Errorf("the database is empty, but group %s has committed %d records of %s: what became of them is written in another database.\n"+
		"Restore that one, an older backup will do: what it does not know is looked up at the provider.\n"+
		"Or, if it is gone for good, begin anew: to ask the provider about every record that the topic still holds, set the offsets of the group to the earliest (kafka-consumer-groups.sh --reset-offsets --to-earliest); "+
		"to take what was committed as settled, run `billing topics accept-offsets`", cfg.Group, records, l.Main())
}

func committedOf(ctx context.Context, admin *kafkaclient.Admin, group, topic string) (map[int32]int64, error) {
	topics, err := admin.Topics(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	return admin.Committed(ctx, group, topic, topics[topic].Partitions)
}

// groupsOf are the groups that read the main topic and the tiers, by topic.
func groupsOf(cfg Config, l retry.Ladder) map[string]string {
	groups := map[string]string{l.Main(): cfg.Group}
	for _, t := range l.Tiers() {
		groups[t.Topic] = t.Group
	}
	return groups
}

// eachGroup reads what the groups have committed in the main topic and in the tiers, and hands it over.
func eachGroup(ctx context.Context, cfg Config, l retry.Ladder, admin *kafkaclient.Admin, ids topicIDs, note func(context.Context, uuid.UUID, map[int32]int64) error) error {
	for topic, group := range groupsOf(cfg, l) {
		committed, err := committedOf(ctx, admin, group, topic)
		if err != nil {
			return err
		}
		if err := note(ctx, ids.id(topic), committed); err != nil {
			return err
		}
	}
	return nil
}

// refuseWhileRead refuses to take what was committed as settled while a member of the group is at it: our instances read from
// where the books end, and what they finish would not be counted; another program goes on to commit.
func refuseWhileRead(ctx context.Context, cfg Config, admin *kafkaclient.Admin, store *pgstore.Store, ids topicIDs) error {
	for topic, group := range groupsOf(cfg, cfg.ladder()) {
		committed, err := committedOf(ctx, admin, group, topic)
		if err != nil {
			return err
		}
		taken, err := store.Taken(ctx, ids.id(topic))
		if err != nil {
			return err
		}
		var readers map[int32]string // asked for once it matters
		for p, next := range committed {
			if next <= taken[p] {
				continue
			}
			if readers == nil {
				if readers, err = admin.Readers(ctx, group, topic); err != nil {
					return err
				}
			}
			if reader := readers[p]; reader != "" {
				return fmt.Errorf("%s[%d]: group %s has committed up to %d, the database knows only up to %d, and %s reads it now: stop all members of the group first",
					topic, p, group, next, taken[p], reader)
			}
		}
	}
	return nil
}

func newAcceptOffsetsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "accept-offsets", Short: "Take what the groups have committed as settled, whatever the database knows of it", Args: cobra.NoArgs,
		Long: "Where the database knows of fewer records than a group has committed, `serve` reads those again and asks the provider about each, since the\n" +
			"database may have been restored to an earlier state. After this command it does not: for a database that is begun anew under a group that\n" +
			"was there before, and for offsets that were set forward to leave records out. Stop all instances first. What is left out is never charged\n" +
			"by itself; `billing reconcile` compares with the provider.",
		Example: "  billing topics accept-offsets",
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
			if err := refuseWhileRead(cmd.Context(), cfg, reader.Admin, store, ids); err != nil {
				return err
			}
			if err := eachGroup(cmd.Context(), cfg, cfg.ladder(), reader.Admin, ids, store.AcceptTaken); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "accepted: reading begins at the committed offsets")
			return nil
		},
	}
}
