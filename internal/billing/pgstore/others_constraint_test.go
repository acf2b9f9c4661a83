package pgstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

// Somebody else's constraint refuses every order that there is: a newer release's column while this one still runs, a check
// of a database administrator, a partition that nobody made (all of class 23). No order is to blame.
func TestAConstraintThatEveryOrderMeetsIsNoOrdersFault(t *testing.T) {
	for name, ddl := range map[string]string{
		"a newer column that must not be null (23502)": `ALTER TABLE charges ADD COLUMN tenant text NOT NULL`,
		"a check that is not ours (23514)":             `ALTER TABLE charges ADD CONSTRAINT theirs CHECK (false) NOT VALID`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			_, err := f.pool.Exec(t.Context(), ddl)
			require.NoError(t, err)
			for range 3 {
				_, _, err = f.Claim(t.Context(), f.order())
				require.NotEqual(t, failure.OfMessage, failure.Of(err).Fault(failure.Hold), "%v", err)
			}
		})
	}
}
