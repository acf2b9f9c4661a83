package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/fleet"
	"example.com/billing/internal/hold"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/postgres"
	"example.com/billing/internal/platform/telemetry"
	"example.com/billing/internal/retry"
)

// roomDeps are what the operator's room shows and acts through.
type roomDeps struct {
	pool     *pgxpool.Pool
	producer *kafkaclient.Producer
	reader   *kafkaclient.Reader
	line     *hold.Line
	instance *fleet.Instance
	left     *leftWatch
	metrics  *telemetry.Metrics
	log      *slog.Logger
}

// room is the person's: the working list of dead letters, and the HTTP server.
type room struct {
	list     *deadletter.List
	ingester *deadletter.Ingester
	server   *admin.Server
	stopping atomic.Bool
}

func newRoom(cfg Config, l retry.Ladder, opt serveOptions, d roomDeps) (*room, error) {
	tokens, err := admin.ParseTokens(cfg.AdminTokens)
	if err != nil {
		return nil, err
	}
	r := &room{list: deadletter.NewList(d.pool)}
	r.ingester, err = deadletter.NewIngester(deadletter.IngesterConfig{Topic: l.DeadLetters(), Main: l.Main(), Log: d.log}, d.pool, d.reader, d.reader, decodeDeadLetter(cfg.Currency))
	if err != nil {
		return nil, err
	}
	records := deadletter.NewRecords(d.pool, d.reader, d.reader)
	replayer, err := deadletter.NewReplayer(deadletter.ReplayerConfig{
		Ladder: l, Targets: cfg.ReplayTargets, Ceiling: cfg.ReplayCeiling, Environment: cfg.Environment, Clock: time.Now, Log: d.log,
	}, d.pool, d.reader, records, d.producer)
	if err != nil {
		return nil, &usageError{[]string{"BILLING_REPLAY_TARGETS: " + err.Error()}}
	}
	r.server, err = admin.New(
		admin.Config{Addr: cfg.HTTPAddr, DeadLetters: l.DeadLetters(), Tokens: tokens, AllowDemoToken: opt.allowDemoToken, StopTimeout: time.Second},
		admin.Deps{
			Pool: d.pool, Letters: r.list, Records: records, Replayer: replayer, Parts: r.parts(l, d),
			Metrics: d.metrics.Registry, Clock: time.Now, Log: d.log,
		})
	return r, err
}

// parts are what must work for the service to be ready.
func (r *room) parts(l retry.Ladder, d roomDeps) []admin.Part {
	return []admin.Part{
		{Name: "service", Check: func(context.Context) (bool, string) {
			if r.stopping.Load() {
				return false, "stopping"
			}
			return true, ""
		}},
		{Name: "line", Check: func(context.Context) (bool, string) { return lineState(d.line, d.instance) }},
		{Name: "database", Check: func(ctx context.Context) (bool, string) {
			if postgres.Ping(ctx, d.pool) != nil { // its text may name hosts and accounts
				return false, "does not answer"
			}
			return true, ""
		}},
		{Name: "broker", Check: func(ctx context.Context) (bool, string) {
			if _, err := d.reader.Topics(ctx, []string{l.Main()}); err != nil {
				return false, "does not answer"
			}
			return true, ""
		}},
		{Name: "topics", Check: d.left.state},
	}
}

// lineState tells why the line is held, who has paused it, and whether the partitions are with the other instances.
func lineState(line *hold.Line, instance *fleet.Instance) (ok bool, reason string) {
	held, since := line.Held()
	if held == "" {
		return true, ""
	}
	reason = fmt.Sprintf("held for %s: %s", time.Since(since).Round(time.Second), held)
	if p := instance.Paused(); p != nil && held == failure.OperatorPause {
		reason += fmt.Sprintf(" by %s since %s: %s", p.By, p.Since.UTC().Format(time.RFC3339), p.Reason)
	}
	if until := instance.OutUntil(); !until.IsZero() {
		reason += fmt.Sprintf("; alone, so it has left the consumer groups to the others, for %s more at most", time.Until(until).Round(time.Second))
	}
	return false, reason
}
