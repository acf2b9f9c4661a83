package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Installation is what must stay the same for the life of a database. Idempotency keys of waiting orders follow from the
// first two (hazard H6); the others are where the consumer stands in the topics (H7, H30).
type Installation struct {
	Environment string // BILLING_ENVIRONMENT
	Account     string // BILLING_PROVIDER_ACCOUNT
	Group       string // BILLING_GROUP
	Topic       string // BILLING_TOPIC; empty: not compared
	Cluster     string // id of the Kafka cluster; empty: not compared
}

// PinError names a setting that differs from the one that this database was first used with.
type PinError struct{ Setting, Stored, Given, Way string }

func (e *PinError) Error() string {
	return fmt.Sprintf("%s is %q, but this database was first used with %q: %s", e.Setting, e.Given, e.Stored, e.Way)
}

// The ways out of a difference.
const (
	setBack  = "set it back, or use another database; while no order was taken, `billing config unpin` forgets it"
	renamed  = "set it back, or, if orders come through another topic now, stop all instances and run `billing topics accept`"
	migrated = "connect to the other cluster or use another database; if Kafka itself was replaced, stop all instances and run `billing topics accept`"
)

const (
	readInstallationSQL = `SELECT environment, provider_account, consumer_group, coalesce(main_topic, ''), coalesce(cluster_id, '') FROM installation`
	// An installation of an older release has no topic and no cluster yet.
	pinSQL = `INSERT INTO installation AS i (environment, provider_account, consumer_group, main_topic, cluster_id)
		VALUES ($1, $2, $3, nullif($4, ''), nullif($5, ''))
		ON CONFLICT (only_row) DO UPDATE SET main_topic = coalesce(i.main_topic, excluded.main_topic), cluster_id = coalesce(i.cluster_id, excluded.cluster_id)
		 WHERE (i.environment, i.provider_account, i.consumer_group) = (excluded.environment, excluded.provider_account, excluded.consumer_group)
		   AND (i.main_topic IS NULL AND excluded.main_topic IS NOT NULL OR i.cluster_id IS NULL AND excluded.cluster_id IS NOT NULL)`
	moveSQL = `UPDATE installation SET main_topic = nullif($1, ''), cluster_id = nullif($2, '')`
)

// Pin stores the installation at the first start; afterwards each difference is a *PinError (joined when there are more).
func (s *Store) Pin(ctx context.Context, given Installation) error {
	err := s.patiently(ctx, "pin installation", func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, pinSQL, given.Environment, given.Account, given.Group, given.Topic, given.Cluster)
		return err
	})
	if err != nil {
		return err
	}
	return s.CheckPin(ctx, given)
}

// CheckPin compares like Pin and writes nothing. A database without an installation is anyone's.
func (s *Store) CheckPin(ctx context.Context, given Installation) error {
	stored, err := s.Installation(ctx)
	if err != nil || stored == (Installation{}) {
		return err
	}
	return errors.Join(
		differs("BILLING_ENVIRONMENT", stored.Environment, given.Environment, setBack),
		differs("BILLING_PROVIDER_ACCOUNT", stored.Account, given.Account, setBack),
		differs("BILLING_GROUP", stored.Group, given.Group, setBack),
		differsIfKnown("the Kafka cluster of BILLING_KAFKA_BROKERS", stored.Cluster, given.Cluster, migrated),
		differsIfKnown("BILLING_TOPIC", stored.Topic, given.Topic, renamed))
}

// Installation is what is pinned; zero: nothing yet.
func (s *Store) Installation(ctx context.Context) (stored Installation, err error) {
	err = s.patiently(ctx, "read installation", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, readInstallationSQL)
		if err != nil {
			return err
		}
		stored, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Installation])
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return stored, err
}

// Move takes another main topic and cluster for the ones that are pinned.
func (s *Store) Move(ctx context.Context, topic, cluster string) error {
	return s.patiently(ctx, "move installation", func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, moveSQL, topic, cluster)
		return err
	})
}

func differs(setting, stored, given, way string) error {
	if stored == given {
		return nil
	}
	return &PinError{Setting: setting, Stored: stored, Given: given, Way: way}
}

// differsIfKnown leaves out what an older release has not pinned, and what the caller cannot tell.
func differsIfKnown(setting, stored, given, way string) error {
	if stored == "" || given == "" {
		return nil
	}
	return differs(setting, stored, given, way)
}
