package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
)

// checks collects what is wrong with the settings, one problem a setting: the first one found explains the others.
type checks struct {
	*Config
	required []string // fields that the command cannot do without
	problems []string
	named    map[string]bool
	unread   bool // a value could not be read, so values cannot be held against each other
}

// check holds the rules that one value or several must keep, and returns all problems. Nothing has been started or written
// then.
func (k *checks) check(required []string) []string {
	k.required = required
	k.checkTexts()
	k.checkChoices()
	k.checkNumbers()
	k.checkNames()
	k.checkAddresses()
	k.checkKafka()
	k.checkDatabase()
	k.checkAdmin()
	return k.problems
}

func (k *checks) bad(name, format string, args ...any) {
	if k.named[name] {
		return
	}
	k.named[name] = true
	f, _ := reflect.TypeFor[Config]().FieldByName(name)
	k.problems = append(k.problems, problem(f, fmt.Sprintf(format, args...)))
}

// needs reports whether the command works with the setting: only then what lies on this machine is looked at.
func (k *checks) needs(name string) bool { return slices.Contains(k.required, name) }

// checkTexts finds what is missing, and what no line of a log or a request could hold. Values are not quoted: they may be
// secrets.
func (k *checks) checkTexts() {
	v := reflect.ValueOf(*k.Config)
	for i := range v.NumField() {
		name, text := v.Type().Field(i).Name, fmt.Sprint(v.Field(i).Interface())
		if k.needs(name) && text == "" {
			k.bad(name, "is required")
		}
		if strings.ContainsFunc(text, unicode.IsControl) && !strings.Contains(text, pemBegin) {
			k.bad(name, "holds a line break or another control character")
		}
	}
}

// pemBegin is how a certificate begins that stands in the setting itself.
const pemBegin = "-----BEGIN"

// around says what a shell, an env file or an editor left around a value.
func around(text string) string {
	if text != strings.TrimSpace(text) {
		return "begins or ends with a space or a line break"
	}
	if n := len(text); n > 1 && text[0] == text[n-1] && strings.ContainsRune("\"'`", rune(text[0])) {
		return "stands in quotes, which are part of the value here; leave them out"
	}
	return ""
}

func (k *checks) checkChoices() {
	for _, c := range []struct {
		name, value string
		choices     []string
	}{
		{"KafkaSecurityProtocol", strings.ToUpper(k.KafkaSecurityProtocol), []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}},
		{"KafkaSASLMechanism", cmp.Or(strings.ToUpper(k.KafkaSASLMechanism), "PLAIN"), []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}},
		{"FaultPolicy", k.FaultPolicy, []string{string(failure.Hold), string(failure.Document)}},
		{"LogLevel", k.LogLevel, []string{"debug", "info", "warn", "error"}},
		{"LogFormat", k.LogFormat, []string{"json", "text"}},
	} {
		if !slices.Contains(c.choices, c.value) {
			k.bad(c.name, "%.40q is not one of %s", c.value, strings.Join(c.choices, ", "))
		}
	}
	if !billing.KnownCurrency(k.Currency) {
		k.bad("Currency", "%.40q is not an ISO 4217 code in capitals", k.Currency)
	}
}

// checkKafka looks at each value first, then asks the client about all of them together.
func (k *checks) checkKafka() {
	sasl, mechanism := strings.HasPrefix(strings.ToUpper(k.KafkaSecurityProtocol), "SASL_"), strings.ToUpper(k.KafkaSASLMechanism)
	for _, f := range []struct{ name, value string }{
		{"KafkaSASLMechanism", mechanism}, {"KafkaSASLUsername", k.KafkaSASLUsername}, {"KafkaSASLPassword", k.KafkaSASLPassword},
	} {
		needed := sasl && (mechanism != "OAUTHBEARER" || f.name == "KafkaSASLMechanism") && !strings.Contains(k.KafkaExtra, "sasl.")
		if needed && f.value == "" {
			k.bad(f.name, "is required with BILLING_KAFKA_SECURITY_PROTOCOL=%s", k.KafkaSecurityProtocol)
		}
	}
	if err := kafkaclient.CheckExtra(k.KafkaExtra); err != nil {
		k.bad("KafkaExtra", "%v", err)
	}
	if !strings.Contains(k.KafkaSSLCA, pemBegin) && k.KafkaSSLCA != "" && k.needs("KafkaBrokers") {
		if wrong := unreadable(k.KafkaSSLCA); wrong != "" {
			k.bad("KafkaSSLCA", "%s", wrong)
		}
	}
	if strings.Contains(k.KafkaSSLCA, "PRIVATE KEY-----") {
		k.bad("KafkaSSLCA", "holds a private key; it must be the certificate to trust")
	}
	if !k.needs("KafkaBrokers") || len(k.problems) > 0 {
		return
	}
	if err := k.kafka().Check(); err != nil {
		k.bad(kafkaSetting(err), "is refused by the Kafka client: %v", err)
	}
}

// kafkaSetting is the setting that the client most likely speaks of.
func kafkaSetting(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "ssl.ca"):
		return "KafkaSSLCA"
	case strings.Contains(text, "mechanism"):
		return "KafkaSASLMechanism"
	}
	return "KafkaExtra"
}

// checkAdmin: a token that stands in this repository is known to everyone. The demo's own and those of the compose file work
// on one's own machine, where BILLING_ENVIRONMENT=local says so.
func (k *checks) checkAdmin() {
	tokens, err := admin.ParseTokens(k.AdminTokens)
	if err == nil && k.Environment != localEnvironment {
		err = admin.RefusePublic(tokens)
	}
	if err != nil {
		k.bad("AdminTokens", "cannot be taken: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// localEnvironment is the value of BILLING_ENVIRONMENT for trying the service out.
const localEnvironment = "local"
