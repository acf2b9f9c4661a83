package failure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// row is one line of the table as people, dashboards and runbooks know it.
type row struct {
	reason   Reason
	text     string // the spelling in headers, labels and filters
	class    Class
	hold     Fault
	document Fault
	money    Money
}

// table repeats facts by hand: whoever changes a decision about other people's money states it twice.
var table = []row{
	{EmptyValue, "empty_value", "invalid", OfMessage, OfMessage, NotMoved},
	{NotJSON, "not_json", "invalid", OfMessage, OfMessage, NotMoved},
	{WrongShape, "wrong_shape", "invalid", OfMessage, OfMessage, NotMoved},
	{MissingField, "missing_field", "invalid", OfMessage, OfMessage, NotMoved},
	{DuplicateField, "duplicate_field", "invalid", OfMessage, OfMessage, NotMoved},
	{InvalidUUID, "invalid_uuid", "invalid", OfMessage, OfMessage, NotMoved},
	{InvalidAmount, "invalid_amount", "invalid", OfMessage, OfMessage, NotMoved},
	{AmountNotPositive, "amount_not_positive", "invalid", OfMessage, OfMessage, NotMoved},
	{AmountTooPrecise, "amount_too_precise", "invalid", OfMessage, OfMessage, NotMoved},
	{AmountTooLarge, "amount_too_large", "invalid", OfMessage, OfMessage, NotMoved},
	{UnknownCurrency, "unknown_currency", "invalid", OfMessage, OfMessage, NotMoved},
	{InvalidUTF8, "invalid_utf8", "invalid", OfMessage, OfMessage, NotMoved},

	{OrderConflict, "order_conflict", "conflict", OfMessage, OfMessage, NotMoved},
	{ProviderBadRequest, "provider_bad_request", "rejected", OfMessage, OfMessage, NotMoved},
	{ProviderRejected, "provider_rejected", "rejected", OfMessage, OfMessage, NotMoved},
	{KeyReused, "key_reused", "conflict", OfMessage, OfMessage, MayHaveMoved},
	{Declined, "declined", "declined", OfMessage, OfMessage, NotMoved},
	{TooOld, "too_old", "stale", OfMessage, OfMessage, NotMoved},
	{Stopped, "stopped", "stale", OfMessage, OfMessage, NotMoved},
	{DatabaseRefused, "database_refused", "bug", OfSuspect, OfMessage, NotMoved},
	{Panic, "panic", "bug", OfMessage, OfMessage, MayHaveMoved},
	{Poison, "poison", "poison", OfMessage, OfMessage, MayHaveMoved},

	{ProviderTimeout, "provider_timeout", "exhausted", OfDependency, OfDependency, MayHaveMoved},
	{ProviderUnreachable, "provider_unreachable", "exhausted", OfDependency, OfDependency, NotMoved},
	{ProviderReset, "provider_reset", "exhausted", OfDependency, OfDependency, MayHaveMoved},
	{Provider5xx, "provider_5xx", "exhausted", OfDependency, OfDependency, MayHaveMoved},
	{ProviderTryAgain, "provider_try_again", "exhausted", OfDependency, OfMessage, MayHaveMoved},
	{ProviderInProgress, "provider_in_progress", "exhausted", OfDependency, OfMessage, MayHaveMoved},
	{ProviderRateLimited, "provider_rate_limited", "exhausted", OfMoment, OfMessage, NotMoved},
	{ProviderBadAnswer, "provider_bad_answer", "exhausted", OfDependency, OfDependency, MayHaveMoved},
	{RefusedAfterUnknown, "refused_after_unknown", "exhausted", OfDependency, OfDependency, NotMoved},
	{DatabaseBusy, "database_busy", "exhausted", OfDependency, OfDependency, NotMoved},
	{OrderBusy, "order_busy", "exhausted", OfMoment, OfMoment, NotMoved},
	{LookupInconclusive, "lookup_inconclusive", "exhausted", OfMoment, OfMoment, NotMoved},

	{ProviderDown, "provider_down", "exhausted", OfSystem, OfDependency, MayHaveMoved},
	{ProviderUnauthorized, "provider_unauthorized", "rejected", OfSuspect, OfMessage, NotMoved},
	{ProviderMisaddressed, "provider_misaddressed", "rejected", OfSuspect, OfMessage, NotMoved},
	{ProviderTLS, "provider_tls", "exhausted", OfSuspect, OfDependency, NotMoved},
	{DatabaseDown, "database_down", "exhausted", OfSystem, OfSystem, NotMoved},
	{DatabaseReadOnly, "database_read_only", "exhausted", OfSystem, OfSystem, NotMoved},
	{DatabaseSchema, "database_schema", "exhausted", OfSystem, OfSystem, NotMoved},
	{BrokerDown, "broker_down", "exhausted", OfSystem, OfSystem, NotMoved},
	{PublishRefused, "publish_refused", "exhausted", OfSystem, OfSystem, NotMoved},
	{Unclassified, "unclassified", "exhausted", OfSuspect, OfSuspect, MayHaveMoved},
	{DeadLetterFlood, "dead_letter_flood", "exhausted", OfSystem, OfSystem, NotMoved},
	{OperatorPause, "operator_pause", "exhausted", OfSystem, OfSystem, NotMoved},
	{ShuttingDown, "shutting_down", "exhausted", OfShutdown, OfShutdown, NotMoved},
}

func TestEachReasonHasItsFacts(t *testing.T) {
	require.Len(t, table, len(facts))
	for _, r := range table {
		t.Run(r.text, func(t *testing.T) {
			require.EqualValues(t, r.text, r.reason, "a reason is never renamed")
			require.True(t, r.reason.Known())
			require.Equal(t, r.class, r.reason.Class())
			require.Equal(t, r.hold, Hold.Fault(r.reason))
			require.Equal(t, r.document, Document.Fault(r.reason))
			require.Equal(t, r.money, r.reason.Money())
		})
	}
}

// A reason that is declared and not in the table would have no fault, and its messages no way to go.
func TestTheListIsClosed(t *testing.T) {
	declared := constants(t, "Reason")
	require.Len(t, declared, len(facts))
	for _, text := range declared {
		require.True(t, Reason(text).Known(), text)
	}
	require.ElementsMatch(t, []string{"invalid", "conflict", "rejected", "declined", "exhausted", "unknown", "stale", "bug", "poison"}, constants(t, "Class"))
	require.ElementsMatch(t, []string{"hold", "document"}, constants(t, "Policy"))
}

func TestAnUnknownReasonIsNotKnown(t *testing.T) {
	for _, r := range []Reason{"", "Declined", "declined ", "unknown", "other"} {
		require.False(t, r.Known(), r)
	}
}

func TestFaultNames(t *testing.T) {
	names := map[Fault]string{0: "none", OfMessage: "message", OfDependency: "dependency", OfMoment: "moment", OfSuspect: "suspect", OfSystem: "system", OfShutdown: "shutdown"}
	for f, name := range names {
		require.Equal(t, name, f.String())
	}
}

// The design document knows two ways for what a provider answers: every refusal to the dead letters, every 5xx and timeout
// to a tier. Only our own dependencies hold the line.
func TestDocumentPolicyNeverHoldsForTheProvider(t *testing.T) {
	for _, r := range table {
		if strings.HasPrefix(r.text, "provider_") {
			require.Contains(t, []Fault{OfMessage, OfDependency}, Document.Fault(r.reason), r.text)
		}
	}
}

// What an operator reads says the same as the code: no reason is missing, and class and ways are right.
func TestThePageOfReasonsIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../docs/reasons.md")
	require.NoError(t, err)
	told := map[Reason]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		name, isRow := strings.CutPrefix(cells[0], "| `")
		if !isRow {
			continue
		}
		require.Len(t, cells, 4, line)
		r := Reason(strings.TrimSuffix(name, "`"))
		require.True(t, r.Known(), "%s is not on the list", r)
		require.False(t, told[r], "%s stands twice", r)
		told[r] = true
		ways := Hold.Fault(r).String()
		if Document.Fault(r) != Hold.Fault(r) {
			ways += ", " + Document.Fault(r).String()
		}
		require.Equal(t, []string{string(r.Class()), ways}, cells[1:3], "class and fault of %s", r)
		require.Greater(t, len(cells[3]), 10, "%s: what to do?", r)
	}
	for r := range facts {
		require.True(t, told[r], "docs/reasons.md does not tell of %s", r)
	}
}

// constants are the values of the package's string constants of one type, read from its source.
func constants(t *testing.T, typ string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	require.NoError(t, err)
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			value := spec.(*ast.ValueSpec)
			if of, ok := value.Type.(*ast.Ident); !ok || of.Name != typ {
				continue
			}
			text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			values = append(values, text)
		}
	}
	return values
}

// Each failure that is not the message's own, this order's or ours can be an outage, and each outage has a cure.
func TestEachReasonThatIsNotTheMessagesCanBeAnOutage(t *testing.T) {
	for _, r := range table {
		outage := r.reason.Outage()
		own := r.hold == OfMessage || r.hold == OfShutdown || r.reason == OrderBusy || r.reason == RefusedAfterUnknown
		require.Equal(t, own, outage == "", r.text)
		if outage != "" {
			require.NotEqual(t, NoCure, outage.Cure(), r.text)
			require.Contains(t, Outages(), outage)
			require.Contains(t, []Fault{OfSystem, OfSuspect, OfMoment}, Hold.Fault(outage), r.text)
		}
	}
	for r := range cures {
		require.Contains(t, Outages(), r)
	}
}
