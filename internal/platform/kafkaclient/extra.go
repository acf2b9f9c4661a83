package kafkaclient

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// leastPollInterval is longer than a rebalance ever holds the poll loop up: a revocation drains, cuts and stores for 8 s,
// an assignment asks for 7 s. Below it the group would throw a member out that does as it should.
const leastPollInterval = 10 * time.Second

// extraBounds are the milliseconds that a property may have. The client itself takes 0 for "never" here.
var extraBounds = map[string]struct {
	least, most time.Duration
	why         string
}{
	"max.poll.interval.ms":    {leastPollInterval, 24 * time.Hour, "a rebalance waits for handlers"},
	"auto.commit.interval.ms": {100 * time.Millisecond, time.Minute, "stored offsets are committed on this interval, 0 would never commit"},
}

// pair is an entry of the extras, in the order in which they were given.
type pair struct {
	key, value string
	after      string // the secret before it, of which it may be the rest: a value cannot hold a comma
}

// says words a problem of the entry. Nothing of it is quoted if it may be the rest of a secret.
func (p pair) says(format string, args ...any) string {
	if p.after != "" {
		return fmt.Sprintf("the entry after %s is not a property that can be set; a value cannot hold a comma", p.after)
	}
	return fmt.Sprintf(format, args...)
}

// ParseExtra reads key=value pairs, comma-separated. All problems are in the error, and no value is.
func ParseExtra(text string) (map[string]string, error) {
	pairs, problems := parsePairs(text)
	if len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "; "))
	}
	extra := map[string]string{}
	for _, p := range pairs {
		extra[p.key] = p.value
	}
	return extra, nil
}

func parsePairs(text string) (pairs []pair, problems []string) {
	seen, after := map[string]bool{}, ""
	for i, entry := range strings.Split(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		key, value, ok := strings.Cut(entry, "=")
		p := pair{key, value, after}
		switch why := refusal(key, value); {
		case !ok || key == "":
			problems = append(problems, p.says("entry %d is not key=value", i+1))
		case !legalProperty(key):
			problems = append(problems, p.says("entry %d does not begin with the name of a property", i+1))
		case seen[key]:
			problems = append(problems, p.says("%s stands twice", key))
		case why != "":
			problems = append(problems, p.says("%s", why))
		default:
			pairs, after = append(pairs, p), ""
			seen[key] = true
			if secretProperty(key) {
				after = key
			}
		}
	}
	return pairs, problems
}

// refusal says why a property must not be set, or not so.
func refusal(key, value string) string {
	if strings.HasPrefix(key, "go.") {
		return key + " cannot be set: it is the Go client's own"
	}
	if why, refused := promises[key]; refused {
		return key + " cannot be set: " + why
	}
	if b, bounded := extraBounds[key]; bounded {
		ms, err := strconv.Atoi(value)
		if d := time.Duration(ms) * time.Millisecond; err != nil || d < b.least || d > b.most {
			return fmt.Sprintf("%s must be between %d and %d: %s", key, b.least.Milliseconds(), b.most.Milliseconds(), b.why)
		}
	}
	return ""
}

// legalProperty keeps what is no name of a property out of the errors.
func legalProperty(key string) bool {
	return strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789._") == "" && len(key) <= 80
}

// secretProperty reports whether a property's value must never be shown.
func secretProperty(key string) bool {
	return slices.ContainsFunc([]string{"password", "secret", "passphrase", "private.key", ".pem", "oauthbearer.config", "assertion", "token"},
		func(part string) bool { return strings.Contains(key, part) })
}

// ShowExtra writes the pairs for people, secrets masked.
func ShowExtra(text string) string {
	pairs, problems := parsePairs(text)
	if len(problems) > 0 {
		return "(set)"
	}
	shown := make([]string, len(pairs))
	for i, p := range pairs {
		if secretProperty(p.key) {
			p.value = "xxxxx"
		}
		shown[i] = p.key + "=" + p.value
	}
	return strings.Join(shown, ",")
}

// CheckExtra is ParseExtra that also asks the client whether it knows each property and takes its value. It opens no
// connection.
func CheckExtra(text string) error {
	pairs, problems := parsePairs(text)
	for _, p := range pairs {
		err := tryProducer(&kafka.ConfigMap{p.key: p.value, "log_level": 2})
		switch e, ok := errors.AsType[kafka.Error](err); {
		case !ok || e.Code() != kafka.ErrInvalidArg: // it may need others beside it: Config.Check tells
		case strings.HasPrefix(err.Error(), "No such configuration property"):
			problems = append(problems, p.says("%s is not a property of the client", p.key))
		case strings.HasPrefix(err.Error(), "Invalid value"), strings.HasPrefix(err.Error(), "Configuration property"):
			problems = append(problems, p.says("%s has a value that the client does not take", p.key))
		}
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// Check makes a consumer and a producer of the settings, without brokers, so that the client itself says what does not go
// together: properties, mechanisms, certificates. The text may name files, never their content.
func (c Config) Check() error {
	consumer := c.consumerConfig("check")
	delete(*consumer, "bootstrap.servers")
	client, err := kafka.NewConsumer(consumer)
	if err != nil {
		return c.withoutSecrets(err)
	}
	_ = client.Close() // it was never connected
	producer := c.producerConfig()
	delete(*producer, "bootstrap.servers")
	return c.withoutSecrets(tryProducer(producer))
}

func tryProducer(m *kafka.ConfigMap) error {
	client, err := kafka.NewProducer(m)
	if err == nil {
		client.Close()
	}
	return err
}

// withoutSecrets gives up the text if it repeats a secret.
func (c Config) withoutSecrets(err error) error {
	if err == nil {
		return nil
	}
	secrets := []string{c.SASLPassword}
	for key, value := range c.Extra {
		if secretProperty(key) {
			secrets = append(secrets, value)
		}
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(err.Error(), secret) {
			return errors.New("the Kafka client does not take the settings; its words repeat a secret")
		}
	}
	return err
}
