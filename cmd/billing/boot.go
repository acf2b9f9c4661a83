package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// openTopics refuses to start without the topics: it names them and the command that mends it.
func openTopics(ctx context.Context, cfg Config, l retry.Ladder, log *slog.Logger) (*kafkaclient.Reader, topicIDs, error) {
	ctx, cancel := context.WithTimeout(ctx, topicsDeadline)
	defer cancel()
	reader, err := kafkaclient.NewReader(cfg.kafka(), log)
	if err != nil {
		return nil, nil, err
	}
	existing, err := findTopics(ctx, reader.Admin, append(l.Topics(), resultTopic), knownWithin)
	if err != nil {
		reader.Close()
		return nil, nil, err
	}
	if brokers, err := reader.Brokers(ctx); err == nil {
		for _, d := range kafkaclient.NewPlan(wantedTopics(l, 0, existing), existing, brokers).Differ {
			log.Warn("topic is not as wanted, see `billing topics plan`", "topic", d)
		}
	}
	if err := refuseLeftTiers(ctx, reader.Admin, cfg.Group, l); err != nil {
		reader.Close()
		return nil, nil, err
	}
	ids := topicIDs{}
	for name, t := range existing {
		ids[name] = t.ID
	}
	return reader, ids, nil
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

// refuseLeftTiers looks for retry topics of other delays that still hold orders: nobody would read them (hazard H7).
func refuseLeftTiers(ctx context.Context, admin *kafkaclient.Admin, group string, l retry.Ladder) error {
	all, err := admin.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range all {
		suffix, isTier := strings.CutPrefix(name, l.Main()+".retry-")
		if !isTier || slices.Contains(l.Topics(), name) {
			continue
		}
		waiting, err := lag(ctx, admin, group+"-retry-"+suffix, name)
		if err != nil {
			return err
		}
		if waiting > 0 {
			return fmt.Errorf("%d orders wait in %s, which BILLING_RETRY_DELAYS does not name any more: add %s to it until they are through", waiting, name, suffix)
		}
	}
	return nil
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
