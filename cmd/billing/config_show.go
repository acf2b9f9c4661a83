package main

import (
	"fmt"
	"io"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.com/billing/internal/platform/kafkaclient"
)

func printConfig(w io.Writer, cfg Config) {
	table := newTable(w)
	v := reflect.ValueOf(cfg)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		table.row(variable(f), shown(f, v.Field(i)), f.Tag.Get("doc"))
	}
	_ = table.Flush() // the writer below is a terminal or a pipe: nothing to do about it
}

// shown is the value for people. What may hold a secret is masked, and of what cannot be read as expected nothing is shown.
func shown(f reflect.StructField, v reflect.Value) string {
	text := fmt.Sprint(v.Interface())
	if d, ok := v.Interface().(optionalDuration); ok {
		if text = time.Duration(d).String(); d == 0 {
			text = "off"
		}
	}
	if list, ok := v.Interface().([]time.Duration); ok {
		text = strings.Trim(fmt.Sprint(list), "[]")
	}
	if text == "" || text == "[]" {
		return "-"
	}
	switch {
	case f.Name == "DatabaseURL":
		return shownDatabase(text)
	case f.Name == "ProviderURL":
		return shownURL(text)
	case f.Name == "KafkaExtra":
		return kafkaclient.ShowExtra(text)
	case f.Name == "KafkaSSLCA" && strings.Contains(text, "-----"), f.Tag.Get("secret") == "true":
		return hidden
	}
	return text
}

const (
	hidden = "(set)"
	masked = "xxxxx"
)

// harmless are the parameters of a connection that are shown. All others may be a password of something.
var harmless = []string{
	"host", "hostaddr", "port", "user", "dbname", "database", "sslmode", "sslrootcert", "sslcert", "sslkey", "application_name", "connect_timeout",
	"target_session_attrs", "statement_timeout", "lock_timeout", "search_path", "pool_max_conns", "default_query_exec_mode", "channel_binding",
}

// dsnPair is one key = value of a connection string; a value with spaces stands in quotes.
var dsnPair = regexp.MustCompile(`\s*([A-Za-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']\S*)(?:\s+|$)`)

// databaseParams are the parameters after the ? of a URL, or the pairs of a connection string.
func databaseParams(text string) (params url.Values, ok bool) {
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" || u.Fragment != "" {
			return nil, false
		}
		params, err = url.ParseQuery(u.RawQuery)
		return params, err == nil
	}
	params = url.Values{}
	pairs := dsnPair.FindAllStringSubmatch(text, -1)
	for _, p := range pairs {
		params.Add(p[1], strings.Trim(p[2], "'"))
	}
	return params, len(pairs) > 0 && strings.TrimSpace(dsnPair.ReplaceAllString(text, "")) == ""
}

func shownDatabase(text string) string {
	params, ok := databaseParams(text)
	switch {
	case !ok:
		return hidden
	case strings.Contains(text, "://"):
		return shownURL(text)
	}
	var pairs []string
	for key := range params {
		pairs = append(pairs, key+"="+shownParam(key, params.Get(key)))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return hidden
	}
	query := u.Query()
	for key := range query {
		query.Set(key, shownParam(key, query.Get(key)))
	}
	u.RawQuery, u.Fragment = query.Encode(), ""
	return u.Redacted()
}

func shownParam(key, value string) string {
	if slices.Contains(harmless, key) {
		return value
	}
	return masked
}
