package billing

import (
	"fmt"

	"github.com/google/uuid"
)

// namespace of every UUIDv5 that this service makes. It never changes: a changed one would charge waiting orders again.
var namespace = uuid.MustParse("6f1b1f0e-7a6e-5d0b-9a55-3c1f4f6f2b10")

// IdempotencyKey is UUIDv5 of environment, provider account, order id and generation: never of an event, an attempt or an
// offset. It is computed for the first claim only; afterwards the row's key is used (hazard H6).
func IdempotencyKey(environment, account string, order uuid.UUID, generation int) uuid.UUID {
	return uuid.NewSHA1(namespace, fmt.Appendf(nil, "%s|%s|order-charge|%s|%d", environment, account, order, generation))
}
