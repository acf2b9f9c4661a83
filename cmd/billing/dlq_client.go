package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// dlqClient calls the admin API.
type dlqClient struct {
	url, token, topic string
	output            format
}

func (c *dlqClient) flags(f *pflag.FlagSet) {
	f.StringVar(&c.url, "url", "", "address of the service (default: BILLING_ADMIN_URL, else http://127.0.0.1:8080)")
	f.StringVar(&c.token, "token", "", "bearer token (default: BILLING_ADMIN_TOKEN or BILLING_ADMIN_TOKEN_FILE)")
	f.StringVar(&c.topic, "topic", "", "dead-letter topic (default: the only one)")
	c.output.flag(f)
}

// run completes the settings and does the work on the topic.
func (c *dlqClient) run(cmd *cobra.Command, work func(ctx context.Context, topic string) error) error {
	if err := c.complete(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), dlqDeadline)
	defer cancel()
	if c.topic == "" {
		var topics struct {
			Data []struct {
				Topic string `json:"topic"`
			} `json:"data"`
		}
		if _, err := c.call(ctx, http.MethodGet, "/admin/dlq", nil, nil, &topics); err != nil {
			return err
		}
		if len(topics.Data) != 1 {
			return dlqUsage(fmt.Sprintf("the service has %d dead-letter topics; name one with --topic", len(topics.Data)))
		}
		return work(ctx, topics.Data[0].Topic)
	}
	return work(ctx, c.topic)
}

func (c *dlqClient) complete() error {
	for _, u := range []string{os.Getenv("BILLING_ADMIN_URL"), "http://127.0.0.1:8080"} {
		if c.url == "" {
			c.url = u
		}
	}
	if u, err := url.Parse(c.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return dlqUsage("--url: want an address such as http://127.0.0.1:8080")
	} else if u.User != nil || u.RawQuery != "" || u.Fragment != "" { // they would stand in errors
		return dlqUsage("--url: leave out user, password, query and fragment; the token is given as BILLING_ADMIN_TOKEN")
	}
	if c.token == "" {
		c.token = os.Getenv("BILLING_ADMIN_TOKEN")
	}
	if path := os.Getenv("BILLING_ADMIN_TOKEN_FILE"); c.token == "" && path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return dlqUsage("BILLING_ADMIN_TOKEN_FILE: " + err.Error())
		}
		c.token = strings.TrimSpace(string(text))
	}
	if c.token == "" {
		return dlqUsage("a token is needed: set BILLING_ADMIN_TOKEN or BILLING_ADMIN_TOKEN_FILE")
	}
	return nil
}

// call asks and decodes; it returns the answer as it came, too.
func (c *dlqClient) call(ctx context.Context, method, path string, query url.Values, body, into any) ([]byte, error) {
	var payload bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&payload).Encode(body); err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.url, "/")+path+"?"+query.Encode(), &payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		// With it the transport may send a call again whose connection died: the server does it once.
		req.Header.Set("Idempotency-Key", uuid.NewString())
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w (is the service running there? --url or BILLING_ADMIN_URL)", err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end, or not worth reading
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, refusal(method, path, res.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, fmt.Errorf("%s %s: the answer is not what the admin API gives: %w", method, path, err)
	}
	return text, nil
}

// refusal words a problem for people.
func refusal(method, path string, status int, text []byte) error {
	var p struct {
		Detail    string `json:"detail"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(text, &p) != nil || p.Detail == "" {
		p.Detail = "there is no admin API at this address; it exists only when BILLING_ADMIN_TOKENS is set"
	}
	return fmt.Errorf("%s %s: %d: %s (request %s)", method, path, status, printable(p.Detail), printable(p.RequestID))
}
