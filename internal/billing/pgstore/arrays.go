package pgstore

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// uuids is a uuid[] that pgx encodes without looking at each element by reflection.
type uuids []uuid.UUID

var _ pgtype.ArrayGetter = uuids(nil)

// Dimensions makes it a one-dimensional array.
func (a uuids) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(a)), LowerBound: 1}}
}

// Index is one element.
func (a uuids) Index(i int) any { return (*uuidValue)(&a[i]) }

// IndexType is the type of the elements.
func (uuids) IndexType() any { return (*uuidValue)(nil) }

// uuidValue is encoded in place: a pointer makes no garbage.
type uuidValue uuid.UUID

// UUIDValue hands the bytes to pgx.
func (v *uuidValue) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: *v, Valid: true}, nil
}
