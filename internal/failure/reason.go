// Package failure answers the three questions that every failure must answer: whose fault is it, may money have moved,
// and may the same key be sent again.
//
// It holds the one closed list of reasons. Decisions, metric labels, message headers, filters, logs and runbooks all use
// it, so a reason has one spelling everywhere. The package decides nothing about orders, topics or the database.
package failure

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
	DatabaseBusy        Reason = "database_busy"
	OrderBusy           Reason = "order_busy"   // another message of the same order holds a live lease
	Unclassified        Reason = "unclassified" // an error with no opinion: retried, since attempts are finite
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
	OfSuspect                     // looks systemic: waits, uncounted, until a second order tells (hazard H10)
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
}

// facts is the table of design.md §2. Money is that of the attempt; an earlier attempt of the same order may have moved
// money all the same, which Error.Unknown tells.
var facts = map[Reason]fact{
	EmptyValue:        {ClassInvalid, OfMessage, OfMessage, NotMoved},
	NotJSON:           {ClassInvalid, OfMessage, OfMessage, NotMoved},
	WrongShape:        {ClassInvalid, OfMessage, OfMessage, NotMoved},
	MissingField:      {ClassInvalid, OfMessage, OfMessage, NotMoved},
	DuplicateField:    {ClassInvalid, OfMessage, OfMessage, NotMoved},
	InvalidUUID:       {ClassInvalid, OfMessage, OfMessage, NotMoved},
	InvalidAmount:     {ClassInvalid, OfMessage, OfMessage, NotMoved},
	AmountNotPositive: {ClassInvalid, OfMessage, OfMessage, NotMoved},
	AmountTooPrecise:  {ClassInvalid, OfMessage, OfMessage, NotMoved},
	AmountTooLarge:    {ClassInvalid, OfMessage, OfMessage, NotMoved},
	UnknownCurrency:   {ClassInvalid, OfMessage, OfMessage, NotMoved},
	InvalidUTF8:       {ClassInvalid, OfMessage, OfMessage, NotMoved},

	OrderConflict:      {ClassConflict, OfMessage, OfMessage, NotMoved},
	ProviderBadRequest: {ClassRejected, OfMessage, OfMessage, NotMoved},
	ProviderRejected:   {ClassRejected, OfMessage, OfMessage, NotMoved},
	KeyReused:          {ClassConflict, OfMessage, OfMessage, MayHaveMoved},
	Declined:           {ClassDeclined, OfMessage, OfMessage, NotMoved},
	TooOld:             {ClassStale, OfMessage, OfMessage, NotMoved},
	Stopped:            {ClassStale, OfMessage, OfMessage, NotMoved},
	Panic:              {ClassBug, OfMessage, OfMessage, MayHaveMoved},
	Poison:             {ClassPoison, OfMessage, OfMessage, MayHaveMoved},
	DatabaseRefused:    {ClassBug, OfMessage, OfMessage, NotMoved},

	ProviderTimeout:     {ClassExhausted, OfDependency, OfDependency, MayHaveMoved},
	ProviderUnreachable: {ClassExhausted, OfDependency, OfDependency, NotMoved},
	ProviderReset:       {ClassExhausted, OfDependency, OfDependency, MayHaveMoved},
	Provider5xx:         {ClassExhausted, OfDependency, OfDependency, MayHaveMoved},
	ProviderTryAgain:    {ClassExhausted, OfDependency, OfMessage, MayHaveMoved},
	ProviderInProgress:  {ClassExhausted, OfDependency, OfMessage, MayHaveMoved},
	ProviderRateLimited: {ClassExhausted, OfMoment, OfMessage, NotMoved},
	ProviderBadAnswer:   {ClassExhausted, OfDependency, OfDependency, MayHaveMoved},
	DatabaseBusy:        {ClassExhausted, OfDependency, OfDependency, NotMoved},
	OrderBusy:           {ClassExhausted, OfMoment, OfMoment, NotMoved},
	Unclassified:        {ClassExhausted, OfDependency, OfDependency, MayHaveMoved},

	ProviderDown:         {ClassExhausted, OfSystem, OfDependency, MayHaveMoved},
	ProviderUnauthorized: {ClassRejected, OfSuspect, OfMessage, NotMoved},
	ProviderMisaddressed: {ClassRejected, OfSuspect, OfMessage, NotMoved},
	ProviderTLS:          {ClassExhausted, OfSuspect, OfDependency, NotMoved},
	DatabaseDown:         {ClassExhausted, OfSystem, OfSystem, NotMoved},
	DatabaseReadOnly:     {ClassExhausted, OfSystem, OfSystem, NotMoved},
	DatabaseSchema:       {ClassExhausted, OfSystem, OfSystem, NotMoved},
	BrokerDown:           {ClassExhausted, OfSystem, OfSystem, NotMoved},
	DeadLetterFlood:      {ClassExhausted, OfSystem, OfSystem, NotMoved},
	OperatorPause:        {ClassExhausted, OfSystem, OfSystem, NotMoved},
	ShuttingDown:         {ClassExhausted, OfShutdown, OfShutdown, NotMoved},
}

// Known reports whether the reason is on the list.
func (r Reason) Known() bool { _, ok := facts[r]; return ok }

// Class is the class of a dead letter with this reason, when no earlier attempt may have moved money.
func (r Reason) Class() Class { return facts[r].class }

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
