package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// openTopics refuses to start without the topics, or with one that would lose orders: it names them and what mends it.
func openTopics(ctx context.Context, cfg Config, l retry.Ladder, log *slog.Logger) (*kafkaclient.Reader, topicIDs, error) {
	ctx, cancel := context.WithTimeout(ctx, topicsDeadline)
	defer cancel()
	reader, err := kafkaclient.NewReader(cfg.kafka(), log)
	if err != nil {
		return nil, nil, err
	}
	ids, err := describeTopics(ctx, cfg, reader.Admin, l, log)
	if err != nil {
		reader.Close()
		return nil, nil, err
	}
	return reader, ids, nil
}

func describeTopics(ctx context.Context, cfg Config, admin *kafkaclient.Admin, l retry.Ladder, log *slog.Logger) (topicIDs, error) {
	existing, err := findTopics(ctx, admin, append(l.Topics(), resultTopic), knownWithin)
	if err != nil {
		return nil, err
	}
	if err := refuseLossyTopics(l, cfg.LongestOutage, existing); err != nil {
		return nil, err
	}
	if cluster, err := admin.Cluster(ctx); err == nil {
		for _, d := range kafkaclient.NewPlan(wantedTopics(l, cfg.LongestOutage, 0, existing), existing, cluster.Brokers).Differ {
			log.Warn("topic is not as wanted, see `billing topics plan`", "topic", d)
		}
	}
	ids := topicIDs{}
	for name, t := range existing {
		ids[name] = t.ID
	}
	return ids, nil
}

// refuseLossyTopics: a topic that deletes records before their time loses orders, and no fault would ever show (hazard H29).
func refuseLossyTopics(l retry.Ladder, outage time.Duration, existing map[string]kafkaclient.Topic) error {
	var problems []error
	for _, name := range l.Topics() {
		if policy := existing[name].Config["cleanup.policy"]; strings.Contains(policy, "compact") {
			problems = append(problems, fmt.Errorf("topic %s has cleanup.policy=%s, which removes orders that nobody has handled: set it to delete", name, policy))
		}
	}
	for _, t := range l.Tiers() {
		ms, err := existing[t.Topic].ConfigInt("retention.ms")
		if err == nil && ms >= 0 && ms < t.Delay.Milliseconds() {
			problems = append(problems, fmt.Errorf("topic %s has retention.ms=%d, which is shorter than its delay of %s: orders would be deleted before they are due; set it to %d at least, the delay and BILLING_LONGEST_OUTAGE",
				t.Topic, ms, t.Delay, (t.Delay+outage).Milliseconds()))
		}
	}
	return errors.Join(problems...)
}

// install refuses a database of another installation (hazards H6, H7, H30), topics that were created again (H11), and topics
// with orders that nobody would read any more (H28). It writes down what is new once nothing is refused.
func install(ctx context.Context, cfg Config, l retry.Ladder, reader *kafkaclient.Reader, store *pgstore.Store, ids topicIDs, log *slog.Logger) error {
	cluster, err := reader.Cluster(ctx)
	if err != nil {
		return err
	}
	here := cfg.installation()
	here.Cluster = cluster.ID
	if err := store.CheckPin(ctx, here); err != nil {
		return err
	}
	if err := (leftBehind{reader, store, l, cfg.Group}).refuse(ctx, log); err != nil {
		return err
	}
	here.Topic = cfg.Topic
	if err := store.Pin(ctx, here); err != nil {
		return err
	}
	if err := store.KnowTopics(ctx, ids.known(l, cfg.Group)); err != nil {
		return err
	}
	return ids.addKnown(ctx, store)
}

// knownWithin is how long a topic that was created a moment ago may be unknown to a broker.
const knownWithin = 2 * time.Second

// findTopics describes the topics, once all of them are known to the brokers that are asked.
func findTopics(ctx context.Context, admin *kafkaclient.Admin, names []string, within time.Duration) (map[string]kafkaclient.Topic, error) {
	for began := time.Now(); ; {
		existing, err := admin.Topics(ctx, names, kafkaclient.PlanConfigs...)
		if err != nil {
			return nil, err
		}
		missing := kafkaclient.Missing(names, existing)
		if len(missing) == 0 {
			return existing, nil
		}
		if time.Since(began) > within {
			return nil, fmt.Errorf("topics are missing: %s: run `billing topics apply`", strings.Join(missing, ", "))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("topics are not known to all brokers: %s: %w", strings.Join(missing, ", "), ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// lag is the number of records that the group has not finished in a topic.
func lag(ctx context.Context, admin *kafkaclient.Admin, group, topic string) (sum int64, err error) {
	perPartition, err := lags(ctx, admin, group, topic)
	for _, n := range perPartition {
		sum += n
	}
	return sum, err
}

func lags(ctx context.Context, admin *kafkaclient.Admin, group, topic string) (map[int32]int64, error) {
	ends, err := admin.Ends(ctx, topic)
	if err != nil {
		return nil, err
	}
	starts, err := admin.Starts(ctx, topic)
	if err != nil {
		return nil, err
	}
	committed, err := admin.Committed(ctx, group, topic, len(ends))
	if err != nil {
		return nil, err
	}
	for p, end := range ends {
		ends[p] = max(0, end-max(committed[p], starts[p]))
	}
	return ends, nil
}
