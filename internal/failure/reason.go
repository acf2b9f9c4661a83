// Package failure answers the three questions that every failure must answer: whose fault is it, may money have moved,
// and may the same key be sent again.
//
// It holds the one closed list of reasons. Decisions, metric labels, message headers, filters, logs and runbooks all use
// it, so a reason has one spelling everywhere. The package decides nothing about orders, topics or the database.
package failure

import (
	"maps"
	"slices"
)

// Reason says why a message was not charged. The list is closed: a new one is added here with a test, none is renamed.
type Reason string

// What is wrong with the message itself.
const (
	EmptyValue        Reason = "empty_value"
	NotJSON           Reason = "not_json"
	WrongShape        Reason = "wrong_shape"
	MissingField      Reason = "missing_field"
	DuplicateField    Reason = "duplicate_field"
	InvalidUUID       Reason = "invalid_uuid"
	InvalidAmount     Reason = "invalid_amount"
	AmountNotPositive Reason = "amount_not_positive"
	AmountTooPrecise  Reason = "amount_too_precise"
	AmountTooLarge    Reason = "amount_too_large"
	UnknownCurrency   Reason = "unknown_currency"
	InvalidUTF8       Reason = "invalid_utf8"
)

// What the order's history or the provider says about it.
const (
	OrderConflict      Reason = "order_conflict"
	ProviderBadRequest Reason = "provider_bad_request"
	ProviderRejected   Reason = "provider_rejected"
	KeyReused          Reason = "key_reused"
	Declined           Reason = "declined"
	TooOld             Reason = "too_old"
	Stopped            Reason = "stopped"
	Panic              Reason = "panic"
	Poison             Reason = "poison"
	DatabaseRefused    Reason = "database_refused" // a constraint or a guard said no to this order's row
)

// What passes by itself, as a rule.
const (
	ProviderTimeout     Reason = "provider_timeout"
	ProviderUnreachable Reason = "provider_unreachable"
	ProviderReset       Reason = "provider_reset"
	Provider5xx         Reason = "provider_5xx"
	ProviderTryAgain    Reason = "provider_try_again" // 408 and 425
	ProviderInProgress  Reason = "provider_in_progress"
	ProviderRateLimited Reason = "provider_rate_limited"
	ProviderBadAnswer   Reason = "provider_bad_answer"
	RefusedAfterUnknown Reason = "refused_after_unknown" // the provider refuses an order that it may have charged before
	DatabaseBusy        Reason = "database_busy"
	OrderBusy           Reason = "order_busy"          // another message of the same order holds a live lease
	LookupInconclusive  Reason = "lookup_inconclusive" // the provider's look-up proves neither a charge nor its absence
)

// What concerns everyone and holds the line.
const (
	ProviderDown         Reason = "provider_down"
	ProviderUnauthorized Reason = "provider_unauthorized"
	ProviderMisaddressed Reason = "provider_misaddressed"
	ProviderTLS          Reason = "provider_tls"
	DatabaseDown         Reason = "database_down"
	DatabaseReadOnly     Reason = "database_read_only"
	DatabaseSchema       Reason = "database_schema"
	BrokerDown           Reason = "broker_down"
	PublishRefused       Reason = "publish_refused" // the brokers work, and refuse a record
	Unclassified         Reason = "unclassified"    // an error with no opinion belongs to everyone (hazard H21)
	DeadLetterFlood      Reason = "dead_letter_flood"
	OperatorPause        Reason = "operator_pause"
	ShuttingDown         Reason = "shutting_down" // ours: neither an attempt nor a failure
)

// Class groups reasons by what an operator can do about a dead letter.
type Class string

// The classes of dead letters.
const (
	ClassInvalid   Class = "invalid"   // the event is wrong: mend the producer
	ClassConflict  Class = "conflict"  // the same order with other content
	ClassRejected  Class = "rejected"  // the provider refuses the request
	ClassDeclined  Class = "declined"  // the customer's bank refuses
	ClassExhausted Class = "exhausted" // four failures, and no money moved
	ClassUnknown   Class = "unknown"   // four failures, and money may have moved
	ClassStale     Class = "stale"     // too late, or stopped by a person
	ClassBug       Class = "bug"       // our code failed
	ClassPoison    Class = "poison"    // it killed the process
)

// Fault says whose fault a failure is; it decides the way of the message.
type Fault uint8

// The faults. docs/architecture.md shows the way that each one takes.
const (
	OfMessage    Fault = iota + 1 // the message's own: to the dead-letter topic at once
	OfDependency                  // a dependency's, in passing: the next retry tier, counted
	OfMoment                      // this message alone waits a little, uncounted
	OfSuspect                     // looks systemic: waits, uncounted, until other orders tell (hazards H10, H34)
	OfSystem                      // everyone's: the line is held, nothing is counted
	OfShutdown                    // ours: the message comes back after the restart
)

func (f Fault) String() string {
	return [...]string{"none", "message", "dependency", "moment", "suspect", "system", "shutdown"}[f]
}

// Money says whether a failed attempt can have moved money.
type Money uint8

// What an attempt may have done.
const (
	NotMoved Money = iota + 1
	MayHaveMoved
)

// fact is what the table knows about one reason.
type fact struct {
	class    Class
	fault    Fault
	document Fault // the way under the design document's plain table, BILLING_FAULT_POLICY=document
	money    Money
	outage   Reason // what the line is held for when it comes to everyone; none: it is the message's, this order's or ours
}

// none stands for no outage: dead letters are watched by the flood stop, a busy order concerns nobody else.
const none = ""

// facts is the table of design.md §2. Money is that of the attempt; an earlier attempt of the same order may have moved
// money all the same, which Error.Unknown tells.
var facts = map[Reason]fact{
	EmptyValue:        {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	NotJSON:           {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	WrongShape:        {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	MissingField:      {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	DuplicateField:    {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	InvalidUUID:       {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	InvalidAmount:     {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	AmountNotPositive: {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	AmountTooPrecise:  {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	AmountTooLarge:    {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	UnknownCurrency:   {ClassInvalid, OfMessage, OfMessage, NotMoved, none},
	InvalidUTF8:       {ClassInvalid, OfMessage, OfMessage, NotMoved, none},

	OrderConflict:      {ClassConflict, OfMessage, OfMessage, NotMoved, none},
	ProviderBadRequest: {ClassRejected, OfMessage, OfMessage, NotMoved, none},
	ProviderRejected:   {ClassRejected, OfMessage, OfMessage, NotMoved, none},
	KeyReused:          {ClassConflict, OfMessage, OfMessage, MayHaveMoved, none},
	Declined:           {ClassDeclined, OfMessage, OfMessage, NotMoved, none},
	TooOld:             {ClassStale, OfMessage, OfMessage, NotMoved, none},
	Stopped:            {ClassStale, OfMessage, OfMessage, NotMoved, none},
	Panic:              {ClassBug, OfMessage, OfMessage, MayHaveMoved, none},
	Poison:             {ClassPoison, OfMessage, OfMessage, MayHaveMoved, none},
	DatabaseRefused:    {ClassBug, OfSuspect, OfMessage, NotMoved, DatabaseSchema},

	ProviderTimeout:     {ClassExhausted, OfDependency, OfDependency, MayHaveMoved, ProviderDown},
	ProviderUnreachable: {ClassExhausted, OfDependency, OfDependency, NotMoved, ProviderDown},
	ProviderReset:       {ClassExhausted, OfDependency, OfDependency, MayHaveMoved, ProviderDown},
	Provider5xx:         {ClassExhausted, OfDependency, OfDependency, MayHaveMoved, ProviderDown},
	ProviderTryAgain:    {ClassExhausted, OfDependency, OfMessage, MayHaveMoved, ProviderDown},
	ProviderInProgress:  {ClassExhausted, OfDependency, OfMessage, MayHaveMoved, ProviderDown},
	ProviderRateLimited: {ClassExhausted, OfMoment, OfMessage, NotMoved, ProviderRateLimited},
	ProviderBadAnswer:   {ClassExhausted, OfDependency, OfDependency, MayHaveMoved, ProviderDown},
	RefusedAfterUnknown: {ClassExhausted, OfDependency, OfDependency, NotMoved, none},
	DatabaseBusy:        {ClassExhausted, OfDependency, OfDependency, NotMoved, DatabaseDown},
	OrderBusy:           {ClassExhausted, OfMoment, OfMoment, NotMoved, none},
	LookupInconclusive:  {ClassExhausted, OfMoment, OfMoment, NotMoved, LookupInconclusive},

	ProviderDown:         {ClassExhausted, OfSystem, OfDependency, MayHaveMoved, ProviderDown},
	ProviderUnauthorized: {ClassRejected, OfSuspect, OfMessage, NotMoved, ProviderUnauthorized},
	ProviderMisaddressed: {ClassRejected, OfSuspect, OfMessage, NotMoved, ProviderMisaddressed},
	ProviderTLS:          {ClassExhausted, OfSuspect, OfDependency, NotMoved, ProviderTLS},
	DatabaseDown:         {ClassExhausted, OfSystem, OfSystem, NotMoved, DatabaseDown},
	DatabaseReadOnly:     {ClassExhausted, OfSystem, OfSystem, NotMoved, DatabaseReadOnly},
	DatabaseSchema:       {ClassExhausted, OfSystem, OfSystem, NotMoved, DatabaseSchema},
	BrokerDown:           {ClassExhausted, OfSystem, OfSystem, NotMoved, BrokerDown},
	PublishRefused:       {ClassExhausted, OfSystem, OfSystem, NotMoved, PublishRefused},
	Unclassified:         {ClassExhausted, OfSuspect, OfSuspect, MayHaveMoved, Unclassified},
	DeadLetterFlood:      {ClassExhausted, OfSystem, OfSystem, NotMoved, DeadLetterFlood},
	OperatorPause:        {ClassExhausted, OfSystem, OfSystem, NotMoved, OperatorPause},
	ShuttingDown:         {ClassExhausted, OfShutdown, OfShutdown, NotMoved, none},
}

// Reasons is the whole list, sorted.
func Reasons() []Reason { return slices.Sorted(maps.Keys(facts)) }

// Known reports whether the reason is on the list.
func (r Reason) Known() bool { _, ok := facts[r]; return ok }

// Class is the class of a dead letter with this reason, when no earlier attempt may have moved money.
func (r Reason) Class() Class { return facts[r].class }

// Outage is what the line is held for when the failure comes to everyone; empty when it cannot be an outage.
func (r Reason) Outage() Reason { return facts[r].outage }

// Money says whether the attempt that failed for this reason can have moved money.
func (r Reason) Money() Money { return facts[r].money }

// Policy picks the column of the table: Hold, the default, or the design document's plain one.
type Policy string

// The fault policies, BILLING_FAULT_POLICY. A policy changes the way of a message, never what is stored of its order.
const (
	Hold     Policy = "hold"
	Document Policy = "document"
)

// Fault is whose fault the reason is under this policy.
func (p Policy) Fault(r Reason) Fault {
	if p == Document {
		return facts[r].document
	}
	return facts[r].fault
}
