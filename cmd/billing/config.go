package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// prefix of every setting's variable.
const prefix = "BILLING"

// Config are the settings, all from the environment. The tags are the table of docs/configuration: `file` settings may be
// given as the path of a file in …_FILE, `secret` ones are masked wherever they are shown.
type Config struct {
	KafkaBrokers          string `envconfig:"KAFKA_BROKERS" example:"localhost:9092" doc:"host:port, comma-separated"`
	KafkaSecurityProtocol string `envconfig:"KAFKA_SECURITY_PROTOCOL" default:"PLAINTEXT" example:"SASL_SSL" doc:"PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"`
	KafkaSASLMechanism    string `envconfig:"KAFKA_SASL_MECHANISM" example:"SCRAM-SHA-512" doc:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"`
	KafkaSASLUsername     string `envconfig:"KAFKA_SASL_USERNAME" example:"billing" doc:"account at the brokers"`
	KafkaSASLPassword     string `envconfig:"KAFKA_SASL_PASSWORD" secret:"true" file:"true" example:"…" doc:"its password"`
	KafkaSSLCA            string `envconfig:"KAFKA_SSL_CA" example:"/etc/ssl/kafka-ca.pem" doc:"certificate to trust, a path or the PEM itself"`
	KafkaExtra            string `envconfig:"KAFKA_EXTRA" example:"group.instance.id=billing-0" doc:"key=value,… for the client; refused where it would break a promise"`

	Topic         string          `envconfig:"TOPIC" default:"orders.confirmed" example:"orders.confirmed" doc:"main topic; retry and dead-letter topics follow from it"`
	Group         string          `envconfig:"GROUP" default:"billing-order-confirmed" example:"billing-order-confirmed" doc:"consumer group; the retry groups add -retry-5s, …"`
	RetryDelays   []time.Duration `envconfig:"RETRY_DELAYS" default:"5s,30s,5m" example:"5s,30s,5m" doc:"ascending; they name the retry topics"`
	LongestOutage time.Duration   `envconfig:"LONGEST_OUTAGE" default:"72h" example:"72h" doc:"topics keep records for so long beyond the delay"`
	Concurrency   int             `envconfig:"CONCURRENCY" default:"256" example:"256" doc:"charges in flight, per instance"`

	DatabaseURL      string `envconfig:"DATABASE_URL" secret:"true" file:"true" example:"postgres://billing:…@localhost:5432/billing" doc:"Postgres"`
	DatabaseMaxConns int    `envconfig:"DATABASE_MAX_CONNS" default:"8" example:"8" doc:"connections, per instance"`

	ProviderURL           string        `envconfig:"PROVIDER_URL" file:"true" example:"https://billing.example.com" doc:"base URL of the billing provider"`
	ProviderToken         string        `envconfig:"PROVIDER_TOKEN" secret:"true" file:"true" example:"…" doc:"bearer token"`
	ProviderTimeout       time.Duration `envconfig:"PROVIDER_TIMEOUT" default:"10s" example:"10s" doc:"one request"`
	ProviderKeyTTL        time.Duration `envconfig:"PROVIDER_KEY_TTL" default:"24h" example:"24h" doc:"how long the provider remembers an idempotency key"`
	ProviderAccount       string        `envconfig:"PROVIDER_ACCOUNT" default:"default" example:"default" doc:"pinned in the database"`
	ProviderMaxProcessing time.Duration `envconfig:"PROVIDER_MAX_PROCESSING" default:"60s" example:"60s" doc:"how late after a request a charge may still appear"`
	Environment           string        `envconfig:"ENVIRONMENT" default:"default" example:"production" doc:"pinned in the database"`
	Currency              string        `envconfig:"CURRENCY" default:"EUR" example:"EUR" doc:"for events without currency"`

	FaultPolicy string           `envconfig:"FAULT_POLICY" default:"hold" example:"hold" doc:"hold: systemic faults hold the line; document: every 4xx to the DLQ, every 5xx and timeout to a tier"`
	Lease       time.Duration    `envconfig:"LEASE" default:"15s" example:"15s" doc:"how long a claim may work on an order"`
	KeyMargin   time.Duration    `envconfig:"KEY_MARGIN" default:"4h" example:"4h" doc:"a key is not sent again this long before its lifetime ends"`
	MaxAge      optionalDuration `envconfig:"MAX_AGE" default:"off" example:"72h" doc:"orders older than this are not charged any more; off: all are"`
	LeaveAfter  time.Duration    `envconfig:"LEAVE_AFTER" default:"2m" example:"2m" doc:"an instance that is held for so long while another one works leaves the consumer groups to it"`
	StopTimeout time.Duration    `envconfig:"STOP_TIMEOUT" default:"10s" example:"10s" doc:"a stop takes no longer"`

	ReplayTargets []string `envconfig:"REPLAY_TARGETS" example:"orders.confirmed.retry-5s,orders.confirmed" doc:"topics that dead letters may be replayed to; default: first tier, main topic"`
	ReplayCeiling int      `envconfig:"REPLAY_CEILING" default:"5" example:"5" doc:"replays of one message"`

	FloodRatio float64 `envconfig:"FLOOD_RATIO" default:"0.5" example:"0.5" doc:"share of messages that may die in a minute before the line is held"`
	FloodCount int     `envconfig:"FLOOD_COUNT" default:"50" example:"50" doc:"and the number of them that is too many; 0: off"`

	HTTPAddr    string `envconfig:"HTTP_ADDR" default:":8080" example:":8080" doc:"health, metrics, admin"`
	AdminTokens string `envconfig:"ADMIN_TOKENS" secret:"true" file:"true" example:"alice:operator:…" doc:"name:role:token,…; roles viewer, operator, approver; none: no admin surface"`
	LogLevel    string `envconfig:"LOG_LEVEL" default:"info" example:"info" doc:"debug, info, warn or error"`
	LogFormat   string `envconfig:"LOG_FORMAT" default:"json" example:"json" doc:"json or text"`
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
	problems := c.read()
	if len(problems) == 0 {
		problems = c.check(required)
	}
	if len(problems) > 0 {
		return c, &usageError{problems}
	}
	return c, nil
}

// read fills each field by itself, so that one bad value does not hide the others.
func (c *Config) read() (problems []string) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		one := reflect.New(reflect.StructOf([]reflect.StructField{field}))
		if err := envconfig.Process(prefix, one.Interface()); err != nil {
			problems = append(problems, problem(field, fmt.Sprintf("%q cannot be read as %s", os.Getenv(variable(field)), field.Type)))
			continue
		}
		v.Field(i).Set(one.Elem().Field(0))
		if field.Tag.Get("file") == "true" {
			if p := readFile(field, v.Field(i)); p != "" {
				problems = append(problems, p)
			}
		}
	}
	return problems
}

// readFile takes the value from the file that …_FILE names.
func readFile(field reflect.StructField, v reflect.Value) string {
	path := os.Getenv(variable(field) + "_FILE")
	if path == "" {
		return ""
	}
	if v.String() != "" {
		return problem(field, "is given both directly and as "+variable(field)+"_FILE; give one")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return problem(field, "cannot be read from "+variable(field)+"_FILE: "+err.Error())
	}
	v.SetString(strings.TrimSpace(string(b)))
	return ""
}

func variable(f reflect.StructField) string { return prefix + "_" + f.Tag.Get("envconfig") }

func problem(f reflect.StructField, what string) string {
	return fmt.Sprintf("%s %s (example: %s)", variable(f), what, f.Tag.Get("example"))
}
