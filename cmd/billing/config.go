package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// prefix of every setting's variable.
const prefix = "BILLING_"

// Config are the settings, all from the environment. The tags are what `billing config` prints: `file` settings may be
// given as the path of a file in …_FILE, `secret` ones are masked wherever they are shown. Each tag has the whole name of
// its variable: envconfig would also take the name without a prefix, and a stray CURRENCY would change what is charged.
type Config struct {
	KafkaBrokers          string `envconfig:"BILLING_KAFKA_BROKERS" example:"localhost:9092" doc:"host:port, comma-separated"`
	KafkaSecurityProtocol string `envconfig:"BILLING_KAFKA_SECURITY_PROTOCOL" default:"PLAINTEXT" example:"SASL_SSL" doc:"PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"`
	KafkaSASLMechanism    string `envconfig:"BILLING_KAFKA_SASL_MECHANISM" example:"SCRAM-SHA-512" doc:"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"`
	KafkaSASLUsername     string `envconfig:"BILLING_KAFKA_SASL_USERNAME" example:"billing" doc:"account at the brokers"`
	KafkaSASLPassword     string `envconfig:"BILLING_KAFKA_SASL_PASSWORD" secret:"true" file:"true" example:"…" doc:"its password"`
	KafkaSSLCA            string `envconfig:"BILLING_KAFKA_SSL_CA" example:"/etc/ssl/kafka-ca.pem" doc:"certificate to trust, a path or the PEM itself"`
	KafkaExtra            string `envconfig:"BILLING_KAFKA_EXTRA" example:"group.instance.id=billing-0" doc:"key=value,… for the client; refused where it would break a promise"`

	Topic         string          `envconfig:"BILLING_TOPIC" default:"orders.confirmed" example:"orders.confirmed" doc:"main topic; retry and dead-letter topics follow from it"`
	Group         string          `envconfig:"BILLING_GROUP" default:"billing-order-confirmed" example:"billing-order-confirmed" doc:"consumer group; the retry groups add -retry-5s, …"`
	RetryDelays   []time.Duration `envconfig:"BILLING_RETRY_DELAYS" default:"5s,30s,5m" example:"5s,30s,5m" doc:"ascending; they name the retry topics"`
	LongestOutage time.Duration   `envconfig:"BILLING_LONGEST_OUTAGE" default:"72h" example:"72h" doc:"topics keep records for so long beyond the delay"`
	Concurrency   int             `envconfig:"BILLING_CONCURRENCY" default:"256" example:"256" doc:"charges in flight, per instance"`

	DatabaseURL      string `envconfig:"BILLING_DATABASE_URL" secret:"true" file:"true" example:"postgres://billing:…@localhost:5432/billing" doc:"Postgres"`
	DatabaseMaxConns int    `envconfig:"BILLING_DATABASE_MAX_CONNS" default:"8" example:"8" doc:"connections, per instance"`

	ProviderURL           string        `envconfig:"BILLING_PROVIDER_URL" file:"true" example:"https://billing.example.com" doc:"base URL of the billing provider"`
	ProviderToken         string        `envconfig:"BILLING_PROVIDER_TOKEN" secret:"true" file:"true" example:"…" doc:"bearer token"`
	ProviderTimeout       time.Duration `envconfig:"BILLING_PROVIDER_TIMEOUT" default:"10s" example:"10s" doc:"one request"`
	ProviderKeyTTL        time.Duration `envconfig:"BILLING_PROVIDER_KEY_TTL" default:"24h" example:"24h" doc:"how long the provider remembers an idempotency key"`
	ProviderAccount       string        `envconfig:"BILLING_PROVIDER_ACCOUNT" default:"default" example:"default" doc:"pinned in the database"`
	ProviderMaxProcessing time.Duration `envconfig:"BILLING_PROVIDER_MAX_PROCESSING" default:"60s" example:"60s" doc:"how late after a request a charge may still appear"`
	Environment           string        `envconfig:"BILLING_ENVIRONMENT" default:"default" example:"production" doc:"pinned in the database"`
	Currency              string        `envconfig:"BILLING_CURRENCY" default:"EUR" example:"EUR" doc:"for events without currency"`

	FaultPolicy string           `envconfig:"BILLING_FAULT_POLICY" default:"hold" example:"hold" doc:"hold: systemic faults hold the line; document: every 4xx to the DLQ, every 5xx and timeout to a tier"`
	Lease       time.Duration    `envconfig:"BILLING_LEASE" default:"15s" example:"15s" doc:"how long a claim may work on an order"`
	KeyMargin   time.Duration    `envconfig:"BILLING_KEY_MARGIN" default:"4h" example:"4h" doc:"a key is not sent again this long before its lifetime ends"`
	MaxAge      optionalDuration `envconfig:"BILLING_MAX_AGE" default:"off" example:"72h" doc:"orders older than this are not charged any more; off: all are"`
	LeaveAfter  time.Duration    `envconfig:"BILLING_LEAVE_AFTER" default:"2m" example:"2m" doc:"an instance that is held for so long while another one works leaves the consumer groups to it"`
	StopTimeout time.Duration    `envconfig:"BILLING_STOP_TIMEOUT" default:"10s" example:"10s" doc:"a stop takes no longer"`

	ReplayTargets []string `envconfig:"BILLING_REPLAY_TARGETS" example:"orders.confirmed.retry-5s,orders.confirmed" doc:"topics that dead letters may be replayed to; default: first tier, main topic"`
	ReplayCeiling int      `envconfig:"BILLING_REPLAY_CEILING" default:"5" example:"5" doc:"replays of one message"`

	FloodRatio float64 `envconfig:"BILLING_FLOOD_RATIO" default:"0.5" example:"0.5" doc:"share of messages that may die in a minute before the line is held"`
	FloodCount int     `envconfig:"BILLING_FLOOD_COUNT" default:"50" example:"50" doc:"and the number of them that is too many; 0: off"`

	HTTPAddr    string `envconfig:"BILLING_HTTP_ADDR" default:":8080" example:":8080" doc:"health, metrics, admin"`
	PrivateAddr string `envconfig:"BILLING_PRIVATE_ADDR" example:"127.0.0.1:8090" doc:"when set, /metrics is served there only, and pprof too"`
	AdminTokens string `envconfig:"BILLING_ADMIN_TOKENS" secret:"true" file:"true" example:"alice:operator:…" doc:"name:role:token,…; roles viewer, operator, approver; none: no admin surface"`
	LogLevel    string `envconfig:"BILLING_LOG_LEVEL" default:"info" example:"info" doc:"debug, info, warn or error"`
	LogFormat   string `envconfig:"BILLING_LOG_FORMAT" default:"json" example:"json" doc:"json or text"`

	AdminShowHeaders []string `envconfig:"BILLING_ADMIN_SHOW_HEADERS" example:"shop,tenant" doc:"headers of producers that every role of the admin surface may see"`
}

// optionalDuration is a duration or "off", which is 0.
type optionalDuration time.Duration

// Decode reads the setting.
func (d *optionalDuration) Decode(text string) error {
	if text == "off" {
		*d = 0
		return nil
	}
	v, err := time.ParseDuration(text)
	*d = optionalDuration(v)
	return err
}

// kafka is how to reach the brokers.
func (c *Config) kafka() kafkaclient.Config {
	extra, _ := kafkaclient.ParseExtra(c.KafkaExtra) // checked by loadConfig
	return kafkaclient.Config{
		Brokers: c.KafkaBrokers, ClientID: "billing", SecurityProtocol: c.KafkaSecurityProtocol, SASLMechanism: c.KafkaSASLMechanism,
		SASLUsername: c.KafkaSASLUsername, SASLPassword: c.KafkaSASLPassword, SSLCA: c.KafkaSSLCA, Extra: extra,
	}
}

func (c *Config) ladder() retry.Ladder { return retry.NewLadder(c.Topic, c.Group, c.RetryDelays) }

// usageError is wrong usage or settings: exit code 2, nothing was started.
type usageError struct{ problems []string }

func (e *usageError) Error() string { return strings.Join(e.problems, "\n") }

// What the commands cannot do without.
var (
	needsDatabase = []string{"DatabaseURL"}
	needsKafka    = []string{"KafkaBrokers"}
	needsAll      = []string{"KafkaBrokers", "DatabaseURL", "ProviderURL"}
)

// loadConfig reads and checks the settings. All problems are reported at once.
func loadConfig(required []string) (Config, error) {
	var c Config
	if problems := c.read().check(required); len(problems) > 0 {
		return c, &usageError{problems}
	}
	return c, nil
}

// read fills each field by itself, so that one bad value does not hide the others.
func (c *Config) read() *checks {
	k := &checks{Config: c, named: map[string]bool{}}
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		k.readField(v.Type().Field(i), v.Field(i))
	}
	k.unread = len(k.problems) > 0
	return k
}

// readField takes the value from the variable, or from the file that …_FILE names. A variable that is set and empty is no
// wish for the default: more often it is a mistake of a script, and what is pinned in the database would keep it.
func (k *checks) readField(field reflect.StructField, v reflect.Value) {
	text, set := os.LookupEnv(variable(field))
	if set && text == "" && field.Tag.Get("default") != "" {
		k.bad(field.Name, "is set but empty: give a value, or remove the variable for the default, %s", field.Tag.Get("default"))
		return
	}
	if wrong := around(text); wrong != "" && !strings.Contains(text, pemBegin) {
		k.bad(field.Name, "%s", wrong)
		return
	}
	one := reflect.New(reflect.StructOf([]reflect.StructField{field}))
	if err := envconfig.Process("", one.Interface()); err != nil {
		k.bad(field.Name, "%.60q cannot be read as %s", text, kindName(field.Type))
		return
	}
	v.Set(one.Elem().Field(0))
	if field.Tag.Get("file") == "true" {
		k.readFile(field, v)
	}
}

// kindName says what a value must be, for people.
func kindName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "a duration: a number with h, m, s or ms"
	case reflect.TypeFor[optionalDuration]():
		return "a duration, a number with h, m, s or ms, or off"
	case reflect.TypeFor[[]time.Duration]():
		return "durations separated by commas, each a number with h, m, s or ms"
	case reflect.TypeFor[int]():
		return "a whole number"
	}
	return "a number"
}

// maxSettingFile is more than any secret needs; a path that leads to a log or a device is a mistake.
const maxSettingFile = 64 << 10

// readFile takes the value from the file that …_FILE names.
func (k *checks) readFile(field reflect.StructField, v reflect.Value) {
	name := variable(field) + "_FILE"
	path := os.Getenv(name)
	if path == "" {
		return
	}
	if v.String() != "" {
		k.bad(field.Name, "is given both directly and as %s; give one", name)
		return
	}
	text, err := readSettingFile(path)
	if err == nil && around(text) != "" {
		err = fmt.Errorf("%s: what it holds %s", shownPath(path), around(text))
	}
	if err != nil {
		k.bad(field.Name, "cannot be read from %s: %v", name, err)
		return
	}
	v.SetString(text)
}

// shownPath is the path, if it can be nothing else: somebody may have put the secret where the path of its file belongs.
func shownPath(path string) string {
	if strings.HasPrefix(path, "/") || strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../") {
		return path
	}
	return "the file (begin its path with / or ./ to see it here)"
}

// notRead leaves out the path that the standard library's error quotes.
func notRead(path string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", shownPath(path), err)
}

func readSettingFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", notRead(path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxSettingFile+1))
	text := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", notRead(path, err)
	case len(b) > maxSettingFile:
		return "", fmt.Errorf("%s is larger than %d bytes", shownPath(path), maxSettingFile)
	case text == "":
		return "", fmt.Errorf("%s is empty", shownPath(path))
	}
	return text, nil
}

func variable(f reflect.StructField) string { return f.Tag.Get("envconfig") }

func problem(f reflect.StructField, what string) string {
	return fmt.Sprintf("%s %s (example: %s)", variable(f), what, f.Tag.Get("example"))
}
