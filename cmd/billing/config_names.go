package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

const nameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// maxTopicName is Kafka's.
const maxTopicName = 249

// legalName is Kafka's rule for topics. Groups, environments and accounts keep it too: they are parts of keys and of rows
// that never change.
func legalName(name string) bool {
	return name != "" && strings.Trim(name, nameCharacters) == "" && name != "." && name != ".."
}

func (k *checks) checkNames() {
	for _, n := range []struct{ name, value string }{
		{"Topic", k.Topic}, {"Group", k.Group}, {"Environment", k.Environment}, {"ProviderAccount", k.ProviderAccount},
	} {
		if !legalName(n.value) {
			k.bad(n.name, "%.60q is not a name of letters, digits and . _ -", n.value)
		}
	}
	for name, value := range map[string]string{"Environment": k.Environment, "ProviderAccount": k.ProviderAccount} {
		if len(value) > 64 {
			k.bad(name, "is %d characters long, at most 64 are taken", len(value))
		}
	}
	ladder := k.ladder()
	for _, t := range ladder.Topics() {
		if len(t) > maxTopicName {
			k.bad("Topic", "is too long: %s has %d characters, and Kafka takes %d", t, len(t), maxTopicName)
		}
	}
	if len(k.Group) > 200 {
		k.bad("Group", "is %d characters long, at most 200 are taken: the retry groups add their own", len(k.Group))
	}
	if strings.HasSuffix(k.Topic, ".dlq") || strings.Contains(k.Topic, ".retry-") || k.Topic == resultTopic {
		k.bad("Topic", "%s is a dead-letter, retry or result topic, not the one that orders arrive on", k.Topic)
	}
	if k.Group == monitoringGroup {
		k.bad("Group", "%s is the group whose offset tells what is unresolved", k.Group)
	}
	for _, t := range k.ReplayTargets {
		if t == ladder.DeadLetters() || !slices.Contains(ladder.Topics(), t) {
			k.bad("ReplayTargets", "%.60q is not the main topic or one of its retry topics", t)
		}
	}
}

// monitoringGroup is what the alert on dead letters reads.
const monitoringGroup = "ops-monitoring"

// checkAddresses never quotes a URL: a password may stand in it, also where none belongs.
func (k *checks) checkAddresses() {
	for i, broker := range strings.Split(k.KafkaBrokers, ",") {
		if wrong := wrongAddress(strings.TrimSpace(broker), 1); wrong != "" && k.KafkaBrokers != "" {
			k.bad("KafkaBrokers", "entry %d %s", i+1, wrong)
		}
	}
	if wrong := wrongAddress(k.HTTPAddr, 0); wrong != "" {
		k.bad("HTTPAddr", "%s", wrong)
	}
	if k.PrivateAddr != "" {
		if wrong := wrongAddress(k.PrivateAddr, 0); wrong != "" {
			k.bad("PrivateAddr", "%s", wrong)
		}
		if k.PrivateAddr == k.HTTPAddr && !strings.HasSuffix(k.HTTPAddr, ":0") {
			k.bad("PrivateAddr", "is the same as BILLING_HTTP_ADDR, which is not private")
		}
	}
	if wrong := wrongProviderURL(k.ProviderURL); wrong != "" && k.ProviderURL != "" {
		k.bad("ProviderURL", "%s", wrong)
	}
	if len(k.ProviderToken) > 2048 || strings.ContainsFunc(k.ProviderToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		k.bad("ProviderToken", "is not one word of visible ASCII; give the token alone, without `Bearer`")
	}
}

// wrongAddress says what is wrong with a host:port. Only what listens needs no host.
func wrongAddress(address string, leastPort int) string {
	if strings.Contains(address, "://") {
		return "begins with a scheme, want host:port alone"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "is not host:port"
	}
	if n, err := strconv.Atoi(port); err != nil || n < leastPort || n > 65535 {
		return fmt.Sprintf("has no port between %d and 65535", leastPort)
	}
	if host == "" && leastPort > 0 {
		return "has no host"
	}
	if strings.Trim(host, nameCharacters) != "" && net.ParseIP(strings.Split(host, "%")[0]) == nil {
		return "has a host that is neither a name nor an address"
	}
	return ""
}

func wrongProviderURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "is not a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "does not begin with http:// or https://"
	case u.User != nil:
		return "holds a user or a password; the provider is asked with BILLING_PROVIDER_TOKEN"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "holds a query or a fragment, which would be lost; give the base URL alone"
	case strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/v1/charges"):
		return "ends with /v1/charges, which is added to it; give the base URL alone"
	case len(text) > 2048:
		return "is longer than 2048 bytes"
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "1") // the scheme's own
	}
	return wrongAddress(address, 1)
}

// checkDatabase reads the URL as the driver does. Its errors are not shown: they may hold a password.
func (k *checks) checkDatabase() {
	if k.DatabaseURL == "" {
		return
	}
	params, ok := databaseParams(k.DatabaseURL)
	if !ok {
		k.bad("DatabaseURL", "is neither postgres://user:password@host:5432/name nor host=… user=… dbname=…")
	}
	if !k.needs("DatabaseURL") {
		return
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if path := params.Get(name); path != "" && path != "system" {
			if wrong := unreadable(path); wrong != "" {
				k.bad("DatabaseURL", "names a file as %s: %s", name, wrong)
			}
		}
	}
	if _, err := pgxpool.ParseConfig(k.DatabaseURL); err != nil {
		k.bad("DatabaseURL", "cannot be read by the driver: check host, port, the escapes (%%40 for @) and the parameters after the ?")
	}
}

// unreadable says why a file cannot be read.
func unreadable(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return path + " is not a file"
	}
	return ""
}
