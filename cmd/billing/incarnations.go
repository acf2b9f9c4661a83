package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// topicIDs are the present incarnations of our topics.
type topicIDs map[string]uuid.UUID

// id of a topic; for a name that is not ours, which only a forged header has, one that follows from the name.
func (t topicIDs) id(topic string) uuid.UUID {
	if id, ok := t[topic]; ok {
		return id
	}
	return uuid.NewSHA1(uuid.Nil, []byte(topic))
}

// incarnations are the topics whose offsets the groups have committed.
func (t topicIDs) incarnations(l retry.Ladder) map[string]uuid.UUID {
	ids := map[string]uuid.UUID{l.Main(): t[l.Main()]}
	for _, tier := range l.Tiers() {
		ids[tier.Topic] = t[tier.Topic]
	}
	return ids
}

// incarnationsEvery is how long a topic that was created again can stay unnoticed while the service runs.
const incarnationsEvery = 10 * time.Second

// watch ends with an error when one of the topics is not the one that was there at the start any more. The service ends
// with it, and its next start is refused until a person has decided (hazard H11). No answer proves nothing.
func (t topicIDs) watch(ctx context.Context, reader *kafkaclient.Reader, l retry.Ladder, log *slog.Logger) error {
	tick := time.NewTicker(incarnationsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := t.same(ctx, reader, l, log); err != nil {
			return err
		}
	}
}

func (t topicIDs) same(ctx context.Context, reader *kafkaclient.Reader, l retry.Ladder, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, incarnationsEvery)
	defer cancel()
	now, err := reader.Topics(ctx, l.Topics())
	if err != nil {
		log.Debug("topics not described", "error", err)
		return nil
	}
	for name := range t.incarnations(l) {
		if topic, there := now[name]; there && topic.ID != t[name] {
			return fmt.Errorf("topic %s was created again while it was read: what was committed means nothing there", name)
		}
	}
	return nil
}
