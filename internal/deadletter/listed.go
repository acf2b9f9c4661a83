package deadletter

import (
	"context"

	"github.com/google/uuid"
)

// Listed is how far each partition of a dead-letter topic is on the list: the offset after the last record listed.
func (s *List) Listed(ctx context.Context, topicID uuid.UUID) (map[int32]int64, error) {
	return positions(ctx, s.pool, topicID)
}
