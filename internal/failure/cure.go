package failure

import (
	"maps"
	"slices"
)

// Cure says what proves that an outage is over, so that the line may run again.
type Cure uint8

// The cures.
const (
	NoCure        Cure = iota
	ByAnswer           // the provider took a decision in an attempt that began after the outage did
	ByFate             // any message was charged, or found charged before, or its record was published
	ByPublication      // each topic that took no record takes them again, or nobody has any for it
	ByPerson           // an operator
)

// cures has a line for each reason that can hold the line.
var cures = map[Reason]Cure{
	ProviderDown:         ByAnswer,
	ProviderUnauthorized: ByAnswer,
	ProviderMisaddressed: ByAnswer,
	ProviderTLS:          ByAnswer,
	ProviderRateLimited:  ByAnswer,
	LookupInconclusive:   ByAnswer,
	DatabaseDown:         ByFate,
	DatabaseReadOnly:     ByFate,
	DatabaseSchema:       ByFate,
	Unclassified:         ByFate,
	BrokerDown:           ByPublication,
	PublishRefused:       ByPublication,
	DeadLetterFlood:      ByPerson,
	OperatorPause:        ByPerson,
}

// Cure is what ends a hold for this reason; NoCure for a reason that holds nobody.
func (r Reason) Cure() Cure { return cures[r] }

// Outages are the reasons that can hold the line and are found by failures of many orders, in no order.
func Outages() []Reason {
	seen := map[Reason]bool{}
	for _, f := range facts {
		if f.outage != none {
			seen[f.outage] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}
