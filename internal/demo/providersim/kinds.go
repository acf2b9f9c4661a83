package providersim

import "slices"

// Kind is one way to treat a request.
type Kind string

// OK treats a request as it should be.
const OK Kind = "ok"

// These move no money.
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
	Decline     Kind = "402" // final for the key
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

var (
	kindsBefore = []Kind{Status503, Status500, Status429, Status400, Status401, Status404, Redirect, ResetBefore, Hang}
	kindsLater  = []Kind{Decline, Status500After, ResetAfter, HangAfter, Garbage, Truncated, OtherAmount, Slow}
)

// Kinds lists every kind of fault.
func Kinds() []Kind { return slices.Concat(kindsBefore, kindsLater) }

func (k Kind) known() bool { return k.before() || slices.Contains(kindsLater, k) }

// before reports whether the request fails before the provider looks at its key.
func (k Kind) before() bool { return slices.Contains(kindsBefore, k) }
