package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

// newConsumptionCommand is the operator's stop switch, and the way out of a flood of dead letters.
func newConsumptionCommand() *cobra.Command {
	client := &dlqClient{}
	cmd := &cobra.Command{
		Use: "consumption", Short: "Stop the charging of all instances, let it go on, let withheld dead letters go", Args: cobra.NoArgs,
		Long:    "consumption speaks to the admin API of a running service, as `billing dlq` does.",
		Example: "  billing consumption pause --reason \"the provider moves\"\n  billing consumption resume --reason \"it has moved\"\n  billing consumption accept --reason-code not_json --count 300 --reason \"a producer's test\"",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	client.flags(cmd.PersistentFlags())
	cmd.AddCommand(newSwitchCommand(client, "pause", "Stop the charging of all instances"), newSwitchCommand(client, "resume", "Let the charging go on"), newAcceptCommand(client))
	return cmd
}

func newSwitchCommand(client *dlqClient, name, short string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs, Example: fmt.Sprintf("  billing consumption %s --reason \"the provider moves\"", name),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var now struct {
				Paused bool    `json:"paused"`
				By     *string `json:"by"`
				Reason *string `json:"reason"`
			}
			return client.ask(cmd, "/admin/consumption/"+name, map[string]any{"reason": reason}, &now, func() string {
				if !now.Paused {
					return "The consumption runs."
				}
				return fmt.Sprintf("The consumption is paused by %s: %s", printable(*now.By), printable(*now.Reason))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

func newAcceptCommand(client *dlqClient) *cobra.Command {
	var reason, code string
	var count int64
	cmd := &cobra.Command{
		Use: "accept", Short: "In a flood of dead letters, let so many go for one reason", Args: cobra.NoArgs,
		Long: "While too many messages die, dead letters are withheld and their messages wait. /readyz names the reasons and counts. accept lets\n" +
			"them go to the dead-letter topic. Mending the cause is the better way: all that wait are then judged anew.",
		Example: "  billing consumption accept --reason-code not_json --count 300 --reason \"a producer's test\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var now struct {
				ReasonCode string `json:"reason_code"`
				Remaining  int64  `json:"remaining"`
			}
			body := map[string]any{"reason": reason, "reason_code": code, "count": count}
			return client.ask(cmd, "/admin/consumption/accept", body, &now, func() string {
				return fmt.Sprintf("%d messages may die for %s.", now.Remaining, printable(now.ReasonCode))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.Flags().StringVar(&code, "reason-code", "", "what they die of, such as not_json")
	cmd.Flags().Int64Var(&count, "count", 0, "how many")
	for _, name := range []string{"reason", "reason-code", "count"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

// ask posts and prints the answer: as it came, or in words.
func (c *dlqClient) ask(cmd *cobra.Command, path string, body, answer any, words func() string) error {
	if err := c.complete(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), dlqDeadline)
	defer cancel()
	raw, err := c.call(ctx, http.MethodPost, path, nil, body, answer)
	if err != nil {
		return err
	}
	return c.output.show(cmd.OutOrStdout(), json.RawMessage(raw), func(w io.Writer) error {
		_, err := fmt.Fprintln(w, words())
		return err
	})
}
