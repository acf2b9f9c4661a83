package providersim

import "slices"

// Kind is one way to treat a request.
type Kind string

// OK treats a request as it should be.
const OK Kind = "ok"

// These move no money. Beside them, Status, Page, Sick, Some and Limit make kinds of any status.
const (
	Status503   Kind = "503"
	Status500   Kind = "500before"
	Status429   Kind = "429"
	Status400   Kind = "400"
	Status401   Kind = "401"
	Status404   Kind = "404"
	Redirect    Kind = "302"
	ResetBefore Kind = "reset-before"
	Hang        Kind = "hang"
	Busy        Kind = "busy" // the first request of a key hangs, its repetitions get 409
	Decline     Kind = "402"  // final for the key
)

// These move money, and the answer does not say so.
const (
	Status500After Kind = "500after"
	ResetAfter     Kind = "reset-after"
	HangAfter      Kind = "hang-after"
	Garbage        Kind = "garbage"      // 200 and no JSON
	Truncated      Kind = "truncated"    // a success that breaks off
	OtherAmount    Kind = "other-amount" // a success of another amount than was asked for
	Slow           Kind = "slow"         // a success that takes long; money moves even when the client gave up
)

// Unsure is a mode: look-ups of an order find nothing, and say that this proves nothing. Charges work.
const Unsure Kind = "unsure"

var (
	kindsBefore = []Kind{Status503, Status500, Status429, Status400, Status401, Status404, Redirect, ResetBefore, Hang, Busy}
	kindsLater  = []Kind{Decline, Status500After, ResetAfter, HangAfter, Garbage, Truncated, OtherAmount, Slow}
)

// Kinds lists the faults that have a name. Each can be a rule or a mode.
func Kinds() []Kind { return slices.Concat(kindsBefore, kindsLater) }

// forRules reports whether a rule may ask for the kind.
func (k Kind) forRules() bool { return k.before() || slices.Contains(kindsLater, k) }

// before reports whether the request fails before the provider looks at its key.
func (k Kind) before() bool {
	_, anyStatus := k.status()
	return anyStatus || slices.Contains(kindsBefore, k)
}
