package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Installation is what must stay the same for the life of a database. Idempotency keys of waiting orders follow from the
// first two (hazard H6); the third is where the consumer stands in the topics (H7).
type Installation struct {
	Environment string // BILLING_ENVIRONMENT
	Account     string // BILLING_PROVIDER_ACCOUNT
	Group       string // BILLING_GROUP
}

// PinError names a setting that differs from the one that this database was first used with.
type PinError struct{ Setting, Stored, Given string }

func (e *PinError) Error() string {
	return fmt.Sprintf("%s is %q, but this database was first used with %q: set it back, or use another database; "+
		"while no order was taken, `billing config unpin` forgets it", e.Setting, e.Given, e.Stored)
}

// Pin stores the installation at the first start; afterwards each difference is a *PinError (joined when there are more).
func (s *Store) Pin(ctx context.Context, given Installation) error {
	var stored Installation
	err := s.patiently(ctx, "pin installation", func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, `INSERT INTO installation (environment, provider_account, consumer_group) VALUES ($1, $2, $3)
			ON CONFLICT (only_row) DO NOTHING`, given.Environment, given.Account, given.Group)
		if err != nil {
			return err
		}
		rows, err := db.Query(ctx, `SELECT environment, provider_account, consumer_group FROM installation`)
		if err != nil {
			return err
		}
		stored, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Installation])
		return err
	})
	if err != nil {
		return err
	}
	return stored.compare(given)
}

func differs(setting, stored, given string) error {
	if stored == given {
		return nil
	}
	return &PinError{Setting: setting, Stored: stored, Given: given}
}
