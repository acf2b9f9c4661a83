package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

func newTopicsAcceptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "accept", Short: "Take topics that were created again, another main topic or another Kafka cluster as they are now", Args: cobra.NoArgs,
		Long: "A topic that was deleted and created again starts at offset 0: what was committed, and what waited there, is gone. `serve` refuses to start then,\n" +
			"and also when BILLING_TOPIC or the Kafka cluster is another one than this database has worked with.\n" +
			"Find out what was lost (`billing reconcile` compares with the provider), stop all instances, then accept: the groups begin with the first\n" +
			"record that such a topic holds. Another main topic is accepted once the one before has no orders (`billing topics drain`) and no open dead\n" +
			"letters any more. Another cluster is accepted as it is: what waits in the old one cannot be seen from here.",
		Example: "  billing topics accept\n  BILLING_TOPIC=orders.confirmed.v2 billing topics accept",
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
			return accepting{cfg, cfg.ladder(), reader, store, pool, cmd.OutOrStdout()}.run(cmd.Context(), ids)
		},
	}
}

// accepting is what an acceptance looks at.
type accepting struct {
	cfg    Config
	ladder retry.Ladder
	reader *kafkaclient.Reader
	store  *pgstore.Store
	pool   *pgxpool.Pool
	out    io.Writer
}

func (a accepting) run(ctx context.Context, ids topicIDs) error {
	if err := a.store.CheckPin(ctx, a.cfg.installation()); err != nil {
		return err
	}
	pinned, err := a.store.Installation(ctx)
	if err != nil {
		return err
	}
	cluster, err := a.reader.Cluster(ctx)
	if err != nil {
		return err
	}
	recreated, err := a.recreated(ctx, ids)
	if err != nil {
		return err
	}
	newCluster := pinned.Cluster != "" && cluster.ID != "" && pinned.Cluster != cluster.ID
	newTopic := pinned.Topic != "" && pinned.Topic != a.cfg.Topic
	if !newCluster && !newTopic && len(recreated) == 0 {
		fmt.Fprintln(a.out, "nothing to accept")
		return nil
	}
	if err := a.refuse(ctx, recreated, newTopic && !newCluster, pinned.Topic); err != nil {
		return err
	}
	if err := a.begin(ctx, recreated); err != nil {
		return err
	}
	if newCluster || newTopic {
		if err := a.store.Move(ctx, a.cfg.Topic, cluster.ID); err != nil {
			return err
		}
	}
	if newCluster {
		fmt.Fprintf(a.out, "accepted Kafka cluster %s instead of %s\n", cluster.ID, pinned.Cluster)
	}
	if newTopic {
		fmt.Fprintf(a.out, "accepted %s as the main topic instead of %s\n", a.cfg.Topic, pinned.Topic)
	}
	return nil
}

// recreated are the topics that exist under another id than is known: of these settings, and of those before.
func (a accepting) recreated(ctx context.Context, ids topicIDs) ([]pgstore.KnownTopic, error) {
	known, err := a.store.KnownTopics(ctx)
	if err != nil {
		return nil, err
	}
	now := ids.known(a.ladder, a.cfg.Group)
	var names []string
	for _, k := range known {
		if !slices.ContainsFunc(now, named(k.Name)) {
			names = append(names, k.Name)
		}
	}
	if len(names) > 0 {
		before, err := a.reader.Topics(ctx, names)
		if err != nil {
			return nil, err
		}
		for _, k := range known {
			if t, there := before[k.Name]; there {
				now = append(now, pgstore.KnownTopic{Name: k.Name, ID: t.ID, Group: k.Group})
			}
		}
	}
	return slices.DeleteFunc(now, func(t pgstore.KnownTopic) bool { return pgstore.Recreated(known, []pgstore.KnownTopic{t}) == nil }), nil
}

// refuse names what must be done before: running instances would go on as before, and what waits elsewhere would be left.
func (a accepting) refuse(ctx context.Context, recreated []pgstore.KnownTopic, newTopic bool, before string) error {
	groups := map[string]bool{a.cfg.Group: true}
	for _, t := range a.ladder.Tiers() {
		groups[t.Group] = true
	}
	for _, t := range recreated {
		groups[t.Group] = true
	}
	delete(groups, "")
	var problems []error
	for group := range groups {
		n, err := a.reader.Members(ctx, group)
		if err != nil {
			return err
		}
		if n > 0 {
			problems = append(problems, fmt.Errorf("group %s has %d members: stop all instances first (one that was killed is a member until its session ends)", group, n))
		}
	}
	if newTopic {
		err := a.refuseLeft(ctx, recreated, before)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (a accepting) refuseLeft(ctx context.Context, recreated []pgstore.KnownTopic, before string) error {
	var problems []error
	if len(recreated) == 0 { // else nobody knows what was read there: it begins anew, and the next start looks
		left, err := leftBehind{a.reader, a.store, a.ladder, a.cfg.Group}.look(ctx)
		if err != nil {
			return err
		}
		for _, t := range left {
			problems = append(problems, errors.New(t.next(a.ladder)))
		}
	}
	letters, err := a.openLetters(ctx, before+".dlq")
	if letters > 0 {
		problems = append(problems, fmt.Errorf("%d dead letters wait in %s.dlq: replay or drop them first, with BILLING_TOPIC=%s", letters, before, before))
	}
	return errors.Join(append(problems, err)...)
}

// openLetters counts what waits for a person in a dead-letter topic, listed or not.
func (a accepting) openLetters(ctx context.Context, topic string) (open int64, err error) {
	found, err := a.reader.Topics(ctx, []string{topic})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	list := deadletter.NewList(a.pool)
	listed, err := list.Listed(ctx, found[topic].ID)
	if err != nil {
		return 0, err
	}
	unlisted, err := a.reader.Unread(ctx, topic, listed)
	if err != nil {
		return 0, err
	}
	for _, n := range unlisted {
		open += n
	}
	stats, err := list.Stats(ctx, topic)
	for _, n := range stats.Unresolved {
		open += n
	}
	return open, err
}

// begin rewinds first: an instance that had not noticed may have committed into the new topic what it had read of the old
// one, and records below that would never be read.
func (a accepting) begin(ctx context.Context, recreated []pgstore.KnownTopic) error {
	for _, t := range recreated {
		if t.Group == "" {
			continue
		}
		if err := a.reader.Rewind(ctx, t.Group, t.Name); err != nil {
			return err
		}
	}
	if err := a.store.AcceptTopics(ctx, recreated); err != nil {
		return err
	}
	for _, t := range recreated {
		fmt.Fprintln(a.out, "accepted", t.Name, "as it was created again:", beginning(t))
	}
	return nil
}

func beginning(t pgstore.KnownTopic) string {
	if t.Group == "" {
		return "results go there from now on"
	}
	return fmt.Sprintf("group %s begins with its first record", t.Group)
}
