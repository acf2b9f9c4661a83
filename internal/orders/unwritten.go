package orders

import (
	"time"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/hold"
)

// Unwritten lets the line judge an outcome that cannot be stored. The message itself is kept and tried again; but while
// outcomes of everyone stay unwritten, nothing more may be charged.
func Unwritten(line *hold.Line, clock func() time.Time) func(billing.Order, *failure.Error) {
	return func(o billing.Order, f *failure.Error) {
		line.Judge(hold.Attempt{Record: o.Record, Order: o.ID.String(), Began: clock()}, f)
	}
}
