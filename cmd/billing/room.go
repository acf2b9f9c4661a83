package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/fleet"
	"example.com/billing/internal/hold"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/limiter"
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
	crew     *crew
	instance *fleet.Instance
	limit    func() limiter.Limit
	left     *leftWatch
	ahead    *aheadWatch
	deleted  *deletedWatch
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

func newRoom(cfg Config, l retry.Ladder, d roomDeps) (*room, error) {
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
		MaxAge: time.Duration(cfg.MaxAge), Held: func() failure.Reason { why, _ := d.line.Held(); return why },
	}, d.pool, d.reader, records, d.producer)
	if err != nil {
		return nil, err
	}
	r.server, err = admin.New(
		admin.Config{
			Addr: cfg.HTTPAddr, DeadLetters: l.DeadLetters(), PrivateAddr: cfg.PrivateAddr, Tokens: tokens, ShowHeaders: cfg.AdminShowHeaders,
			StopTimeout: time.Second,
		},
		admin.Deps{
			Pool: d.pool, Letters: r.list, Records: records, Replayer: replayer, Parts: r.parts(l, d),
			Metrics: d.metrics.Registry, Clock: time.Now, Log: d.log,
		})
	return r, err
}

// parts are what must work for the service to be ready.
func (r *room) parts(l retry.Ladder, d roomDeps) []admin.Part {
	return []admin.Part{
		{Name: "service", Check: func(context.Context) admin.Health {
			if r.stopping.Load() {
				return admin.Health{State: admin.Stopping}
			}
			return admin.Health{State: admin.Ready}
		}},
		{Name: "line", Check: func(context.Context) admin.Health { return lineState(d.line, d.instance) }},
		{Name: "consumers", Check: func(context.Context) admin.Health { return d.crew.state() }},
		limitPart(d.limit),
		{Name: "database", Check: func(ctx context.Context) admin.Health { return answers(postgres.Ping(ctx, d.pool)) }},
		{Name: "broker", Check: func(ctx context.Context) admin.Health {
			_, err := d.reader.Topics(ctx, []string{l.Main()})
			return answers(err)
		}},
		{Name: "topics", Check: d.left.state},
		{Name: "offsets", Check: d.ahead.state},
		{Name: "retention", Check: d.deleted.state},
	}
}

// answers leaves the error's text out: it may name hosts and accounts.
func answers(err error) admin.Health {
	if err != nil {
		return admin.Health{State: admin.Failed, Detail: "does not answer"}
	}
	return admin.Health{State: admin.Ready}
}

// lineState tells why the line is held, who has paused it, and whether the partitions are with the other instances.
func lineState(line *hold.Line, instance *fleet.Instance) admin.Health {
	held, since := line.Held()
	if held == "" {
		return admin.Health{State: admin.Ready}
	}
	h := admin.Health{State: admin.Held, Reason: held, Detail: fmt.Sprintf("held for %s: %s", time.Since(since).Round(time.Second), held)}
	if held == failure.OperatorPause {
		h.State = admin.Paused
		if p := instance.Paused(); p != nil {
			h.Detail += fmt.Sprintf(" by %s since %s: %s", p.By, p.Since.UTC().Format(time.RFC3339), p.Reason)
		}
	}
	if held == failure.DeadLetterFlood {
		_, waiting := line.Flood()
		h.Detail += fmt.Sprintf("; too many messages die: %s; others go on while there is room. Correct the cause, or `billing consumption accept`", waitingWords(waiting))
	}
	if until := instance.OutUntil(); !until.IsZero() {
		h.Detail += fmt.Sprintf("; alone, so it has left the consumer groups to the others, for %s more at most", time.Until(until).Round(time.Second))
	}
	return h
}

// waitingWords names the reasons of withheld verdicts, the most frequent first.
func waitingWords(waiting map[failure.Reason]int) string {
	if len(waiting) == 0 {
		return "none waits in this instance"
	}
	reasons := slices.SortedFunc(maps.Keys(waiting), func(a, b failure.Reason) int {
		return cmp.Or(cmp.Compare(waiting[b], waiting[a]), cmp.Compare(a, b))
	})
	words := make([]string, len(reasons))
	for i, r := range reasons {
		words[i] = fmt.Sprintf("%d wait for %s", waiting[r], r)
	}
	return strings.Join(words, ", ")
}
