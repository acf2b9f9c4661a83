package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ErrNotParked means that no body is kept under this id.
var ErrNotParked = errors.New("no parked body with this id")

// Park keeps the body of a record that fits no topic any more (hazard H14), and returns its id. Nil and empty stay apart.
func (s *Store) Park(ctx context.Context, key, value []byte) (uuid.UUID, error) {
	id := uuid.New()
	err := s.patiently(ctx, "park body", func(ctx context.Context, db session) error {
		_, err := db.Exec(ctx, `INSERT INTO parked_bodies (id, key, value) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`, id, key, value)
		return err
	})
	return id, err
}

// Parked reads a body back, byte for byte.
func (s *Store) Parked(ctx context.Context, id uuid.UUID) (key, value []byte, err error) {
	var found bool
	err = s.patiently(ctx, "read parked body", func(ctx context.Context, db session) error {
		rows, err := db.Query(ctx, `SELECT key, value FROM parked_bodies WHERE id = $1`, id)
		if err != nil {
			return err
		}
		found = false
		_, err = pgx.ForEachRow(rows, []any{&key, &value}, func() error { found = true; return nil })
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: %s", ErrNotParked, id)
	}
	return key, value, err
}
