package archtest

// rooms says what the packages of each folder may import of this module, besides themselves. The longest matching folder
// counts, for the importing and the imported package alike: `internal/billing` is not `internal/billing/pgstore`. A folder
// that no line matches fails the test, so that a new room gets its rule before its first import.
var rooms = map[string][]string{
	"internal/failure": nil,

	"internal/platform/crash":       nil, // where a test build dies
	"internal/platform/kafkaclient": {"internal/platform/crash"},
	"internal/platform/limiter":     nil,
	"internal/platform/postgres":    nil,
	"internal/platform/telemetry":   nil,

	"internal/hold":                 {"internal/failure"},
	"internal/retry":                {"internal/platform/crash", "internal/failure", "internal/hold", "internal/platform/kafkaclient"},
	"internal/proof":                {"internal/failure", "internal/retry", "internal/platform/kafkaclient"},
	"internal/billing":              {"internal/failure", "internal/platform/limiter"},
	"internal/billing/httpprovider": {"internal/platform/crash", "internal/billing", "internal/failure"},
	"internal/billing/pgstore":      {"internal/platform/crash", "internal/billing", "internal/failure", "internal/platform/postgres"},
	"internal/orders": {
		"internal/billing", "internal/failure", "internal/retry", "internal/hold", "internal/platform/kafkaclient",
	},
	"internal/outbox": {"internal/platform/crash", "internal/billing", "internal/failure", "internal/platform/kafkaclient", "internal/platform/postgres"},
	"internal/audit":  nil,
	"internal/fleet":  {"internal/audit", "internal/failure"},
	"internal/reconcile": {
		"internal/billing", "internal/billing/pgstore", "internal/audit", "internal/failure",
	},
	"internal/deadletter": {
		"internal/platform/crash", "internal/audit", "internal/proof", "internal/retry", "internal/billing", "internal/failure", "internal/platform/kafkaclient",
		"internal/platform/postgres",
	},
	"internal/admin": {
		"internal/deadletter", "internal/audit", "internal/fleet", "internal/retry", "internal/billing", "internal/failure",
		"internal/platform/kafkaclient", // for Message, the record that it shows
	},

	"internal/demo": {
		"internal/demo", "internal/billing", "internal/failure", "internal/platform/kafkaclient", "internal/platform/postgres",
	},
	"internal/testkit":  {"internal/demo", "migrations"},
	"internal/archtest": nil,
	"internal/e2e":      {"internal", "migrations"}, // it judges the whole from outside
	"migrations":        nil,
	"cmd/billing":       {"internal", "migrations"}, // it wires them all
	"load":              {"internal", "migrations", "load"},
}

// doors says which folders may import a library. Everything else gets at it through them.
var doors = map[string][]string{
	// What the benchmark compares with is written as if this repository did not exist.
	"github.com/confluentinc/confluent-kafka-go": {"internal/platform/kafkaclient", "load/bench/peers"},
	"github.com/twmb/franz-go":                   {"internal/demo", "internal/testkit", "load"},
	"github.com/fergusstrange/embedded-postgres": {"internal/demo/postgres"},
	"github.com/labstack/echo":                   {"internal/admin", "internal/demo", "cmd/billing"},
	"github.com/spf13/cobra":                     {"cmd/billing"},
	"github.com/kelseyhightower/envconfig":       {"cmd/billing"},
	"github.com/pressly/goose":                   {"internal/platform/postgres", "cmd/billing", "internal/testkit"},
	"github.com/stretchr/testify":                {"internal/testkit"}, // and tests
	"go.uber.org/goleak":                         {"internal/testkit"},
}

// story is what a reader must be able to read in an evening, comments included: the sentence of the service, without SQL,
// HTTP and Kafka. core adds what it decides with; there only code counts, so that no reason is cut to make room.
var (
	story = []string{"internal/orders", "internal/billing", "internal/retry"}
	core  = append([]string{"internal/failure", "internal/hold"}, story...)
)

const (
	maxStoryLines = 2300 // all lines
	maxCoreLines  = 2800 // without comments and blank lines
	maxFileLines  = 400
)
