package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/postgres"
	"example.com/billing/migrations"
)

func newConfigCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "config", Short: "Show the effective settings, secrets masked; --check also reaches what they name", Args: cobra.NoArgs,
		Example: "  billing config\n  billing config --check",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(needsAll)
			if err != nil {
				return err
			}
			printConfig(cmd.OutOrStdout(), cfg)
			if !check {
				return nil
			}
			return checkConfig(cmd.Context(), cmd.OutOrStdout(), cfg)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "reach brokers, topics, database and provider; exit code 3 if one is not as it should be")
	return cmd
}

func printConfig(w io.Writer, cfg Config) {
	table := newTable(w)
	v := reflect.ValueOf(cfg)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		table.row(variable(f), shown(f, v.Field(i)), f.Tag.Get("doc"))
	}
	_ = table.Flush() // the writer below is a terminal or a pipe: nothing to do about it
}

// shown is the value for people: secrets masked, of a URL only the password.
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
	if text == "" {
		return "-"
	}
	if strings.HasSuffix(f.Name, "URL") {
		if u, err := url.Parse(text); err == nil {
			return u.Redacted()
		}
	}
	if f.Tag.Get("secret") == "true" {
		return "(set)"
	}
	return text
}

// checkConfig reaches everything that the settings name.
func checkConfig(ctx context.Context, w io.Writer, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, topicsDeadline)
	defer cancel()
	failed := false
	for _, c := range []struct {
		name  string
		check func(context.Context, Config) error
	}{{"brokers and topics", checkTopics}, {"database", checkDatabase}, {"provider", checkProvider}} {
		if err := c.check(ctx, cfg); err != nil {
			failed = true
			fmt.Fprintf(w, "%s: %v\n", c.name, err)
			continue
		}
		fmt.Fprintf(w, "%s: ok\n", c.name)
	}
	if failed {
		return errDifferences
	}
	return nil
}

func checkTopics(ctx context.Context, cfg Config) error {
	admin, err := kafkaclient.NewAdmin(cfg.kafka())
	if err != nil {
		return err
	}
	defer admin.Close()
	plan, err := planTopics(ctx, admin, cfg, 0)
	if err != nil {
		return err
	}
	var text strings.Builder
	if printPlan(&text, plan) {
		return fmt.Errorf("not as wanted, see `billing topics plan`:\n%s", strings.TrimSpace(text.String()))
	}
	return nil
}

func checkDatabase(ctx context.Context, cfg Config) error {
	pool, err := postgres.Open(ctx, postgres.Config{URL: cfg.DatabaseURL, MaxConns: cfg.DatabaseMaxConns})
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgres.CheckSchema(ctx, pool, migrations.Files)
}

func checkProvider(ctx context.Context, cfg Config) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(cfg.ProviderURL, "/")+"/healthz", nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Timeout: topicsDeadline}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // nothing of it is read
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /healthz answered %d", res.StatusCode)
	}
	return nil
}
