package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// dlqPlace is a message as a person names it: partition/offset.
type dlqPlace struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

func (p dlqPlace) String() string { return fmt.Sprintf("%d/%d", p.Partition, p.Offset) }

func newDLQCommand() *cobra.Command {
	client := &dlqClient{}
	cmd := &cobra.Command{
		Use: "dlq", Short: "See and replay dead letters through the admin API", Args: cobra.NoArgs,
		Long: "dlq speaks to the admin API of a running service. The token is taken from BILLING_ADMIN_TOKEN, or from the file that\n" +
			"BILLING_ADMIN_TOKEN_FILE names; given as a flag it can be seen in the list of processes.",
		Example: "  export BILLING_ADMIN_TOKEN_FILE=~/.billing-token\n  billing dlq list\n  billing dlq show 0/42\n  billing dlq replay 0/42 --reason \"provider is back\"",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	client.flags(cmd.PersistentFlags())
	cmd.AddCommand(newDLQListCommand(client), newDLQShowCommand(client), newDLQReplayCommand(client))
	return cmd
}

func newDLQListCommand(client *dlqClient) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters, the last one first", Args: cobra.NoArgs,
		Example: "  billing dlq list\n  billing dlq list --state replayed --class unknown\n  billing dlq list --order-id 6f1b1f0e-7a6e-4d0b-9a55-3c1f4f6f2b10 -o json",
	}
	names := map[string]string{"state": "open, replaying, replayed, dropped, resolved or duplicate; all: any", "reason": "such as provider_5xx", "class": "such as unknown",
		"order-id": "of one order", "from": "died at or after, such as 2026-01-02T15:04:05Z", "to": "died before", "limit": "rows, at most 500", "cursor": "of the next page"}
	values := map[string]*string{}
	for name, usage := range names {
		values[name] = cmd.Flags().String(name, map[string]string{"state": "open", "limit": "100"}[name], usage)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		for name, value := range values {
			if *value != "" && (name != "state" || *value != "all") {
				query.Set(strings.ReplaceAll(name, "-", "_"), *value)
			}
		}
		return client.run(cmd, func(ctx context.Context, topic string) error {
			var page dlqPage
			raw, err := client.call(ctx, http.MethodGet, "/admin/dlq/"+url.PathEscape(topic)+"/messages", query, nil, &page)
			if err != nil {
				return err
			}
			return client.output.show(cmd.OutOrStdout(), json.RawMessage(raw), func(w io.Writer) error { return page.print(w, topic) })
		})
	}
	return cmd
}

func newDLQShowCommand(client *dlqClient) *cobra.Command {
	return &cobra.Command{
		Use: "show PARTITION/OFFSET", Short: "Show one dead letter with its headers; its payload, too, to operators", Args: cobra.ExactArgs(1),
		Example: "  billing dlq show 0/42\n  billing dlq show 0/42 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			places, err := parsePlaces(args)
			if err != nil {
				return err
			}
			return client.run(cmd, func(ctx context.Context, topic string) error {
				var letter dlqLetter
				raw, err := client.call(ctx, http.MethodGet, "/admin/dlq/"+url.PathEscape(topic)+"/messages/"+places[0].String(), nil, nil, &letter)
				if err != nil {
					return err
				}
				return client.output.show(cmd.OutOrStdout(), json.RawMessage(raw), letter.print)
			})
		},
	}
}

// dlqReplay is what `dlq replay` was asked for.
type dlqReplay struct {
	client *dlqClient
	places []dlqPlace
	all    bool
	reason string
	target string
	max    int
	dryRun bool
	yes    bool

	whileHeld, overCeiling, liftAge bool
}

func newDLQReplayCommand(client *dlqClient) *cobra.Command {
	r := dlqReplay{client: client}
	cmd := &cobra.Command{
		Use: "replay [PARTITION/OFFSET…]", Short: "Send dead letters back; counts first and asks",
		Example: "  billing dlq replay 0/42 1/7 --reason \"provider is back\"\n  billing dlq replay --all --max 100 --reason \"provider is back\" --yes\n" +
			"  billing dlq replay --all --reason look --dry-run -o json",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.places, err = parsePlaces(args); err != nil {
				return err
			}
			return r.run(cmd)
		},
	}
	cmd.Flags().BoolVar(&r.all, "all", false, "all that is open")
	cmd.Flags().StringVar(&r.reason, "reason", "", "why, for the audit trail (required)")
	cmd.Flags().StringVar(&r.target, "target", "", "topic to send to (default: the first retry topic)")
	cmd.Flags().IntVar(&r.max, "max", 0, "at most so many")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only count")
	cmd.Flags().BoolVar(&r.whileHeld, "while-held", false, "send although the line is held or paused")
	cmd.Flags().BoolVar(&r.overCeiling, "over-ceiling", false, "send what was replayed too often (approver)")
	cmd.Flags().BoolVar(&r.liftAge, "lift-age", false, "have charged what is older than BILLING_MAX_AGE (approver)")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "do not ask")
	return cmd
}

// errNotConfirmed makes a script see that nothing was done.
var errNotConfirmed = errors.New("not confirmed: nothing was replayed")

func (r *dlqReplay) run(cmd *cobra.Command) error {
	switch {
	case strings.TrimSpace(r.reason) == "":
		return dlqUsage("--reason is required: say why, for the audit trail")
	case r.all == (len(r.places) > 0):
		return dlqUsage("name messages as PARTITION/OFFSET, or give --all")
	case r.max < 0:
		return dlqUsage("--max is negative")
	case !r.yes && !r.dryRun && !canAnswer(cmd.InOrStdin()):
		return dlqUsage("nobody is there to confirm: give --yes, or --dry-run to only count")
	}
	return r.client.run(cmd, func(ctx context.Context, topic string) error {
		if !r.yes && !r.dryRun {
			plan, _, err := r.call(ctx, topic, true)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), plan.String())
			if plan.Replayed == 0 {
				return nil
			}
			if !confirmed(cmd) {
				return errNotConfirmed
			}
		}
		res, raw, err := r.call(ctx, topic, r.dryRun)
		if err != nil {
			return err
		}
		return r.client.output.show(cmd.OutOrStdout(), json.RawMessage(raw), res.print)
	})
}

func (r *dlqReplay) call(ctx context.Context, topic string, dryRun bool) (res dlqReplayed, raw []byte, err error) {
	query := url.Values{"dry_run": {strconv.FormatBool(dryRun)}}
	if r.target != "" {
		query.Set("target_topic", r.target)
	}
	body := map[string]any{"reason": r.reason}
	if !r.all {
		body["messages"] = r.places
	}
	if r.max > 0 {
		body["max"] = r.max
	}
	for name, yes := range map[string]bool{"while_held": r.whileHeld, "over_ceiling": r.overCeiling, "lift_age": r.liftAge} {
		if yes {
			body[name] = true
		}
	}
	raw, err = r.client.call(ctx, http.MethodPost, "/admin/dlq/"+url.PathEscape(topic)+"/replay", query, body, &res)
	return res, raw, err
}

// dlqReplayed is the answer to a replay.
type dlqReplayed struct {
	Replayed int            `json:"replayed"`
	Skipped  map[string]int `json:"skipped_reasons"`
	Target   string         `json:"target_topic"`
	DryRun   bool           `json:"dry_run"`
	Held     string         `json:"held"`
}

func (r dlqReplayed) String() string {
	verb := "replayed"
	if r.DryRun {
		verb = "would replay"
	}
	text := fmt.Sprintf("%s %d to %s", verb, r.Replayed, printable(r.Target))
	for _, why := range slices.Sorted(maps.Keys(r.Skipped)) {
		text += fmt.Sprintf(", skip %d (%s)", r.Skipped[why], printable(why))
	}
	if r.Held != "" {
		text += fmt.Sprintf("; the line is held (%s): nothing is sent without --while-held", printable(r.Held))
	}
	return text
}

func (r dlqReplayed) print(w io.Writer) error {
	_, err := fmt.Fprintln(w, r.String())
	return err
}

// confirmed asks, and takes nothing but y or yes.
func confirmed(cmd *cobra.Command) bool {
	fmt.Fprint(cmd.ErrOrStderr(), "go on? [y/N] ")
	line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // nothing read is no
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// canAnswer reports whether somebody may be there to confirm: not when the input is a file or a pipe.
func canAnswer(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return true // given by the caller, who knows
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func parsePlaces(args []string) ([]dlqPlace, error) {
	var places []dlqPlace
	for _, a := range args {
		partition, offset, ok := strings.Cut(a, "/")
		p, err1 := strconv.ParseInt(partition, 10, 32)
		o, err2 := strconv.ParseInt(offset, 10, 64)
		if !ok || err1 != nil || err2 != nil || p < 0 || o < 0 {
			return nil, dlqUsage(fmt.Sprintf("%q is not a message; want PARTITION/OFFSET such as 0/42", a))
		}
		places = append(places, dlqPlace{int32(p), o})
	}
	return places, nil
}

func dlqUsage(problem string) error { return &usageError{[]string{"dlq: " + problem}} }

// dlqDeadline bounds one command: the longest replay that the server works on in one call, and a little.
const dlqDeadline = 150 * time.Second
