package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/billing/pgstore"
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

// known are the topics as the database knows them: those that our groups read, and the one that the results go to. The
// dead-letter topic is not among them: one that is created again is another list of letters, and no start is refused for it.
func (t topicIDs) known(l retry.Ladder, group string) []pgstore.KnownTopic {
	known := []pgstore.KnownTopic{{Name: resultTopic, ID: t[resultTopic]}, {Name: l.Main(), ID: t[l.Main()], Group: group}}
	for _, tier := range l.Tiers() {
		known = append(known, pgstore.KnownTopic{Name: tier.Topic, ID: t[tier.Topic], Group: tier.Group})
	}
	return known
}

// addKnown adds the topics that this database worked with before: records that came from there keep their origin.
func (t topicIDs) addKnown(ctx context.Context, store *pgstore.Store) error {
	known, err := store.KnownTopics(ctx)
	for _, k := range known {
		if _, ours := t[k.Name]; !ours {
			t[k.Name] = k.ID
		}
	}
	return err
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
	for _, k := range t.known(l, "") {
		if topic, there := now[k.Name]; there && topic.ID != k.ID {
			return fmt.Errorf("topic %s was created again while it was read: what was committed means nothing there", k.Name)
		}
	}
	return nil
}
