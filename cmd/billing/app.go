package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/billing/httpprovider"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/deadletter"
	"example.com/billing/internal/failure"
	"example.com/billing/internal/fleet"
	"example.com/billing/internal/hold"
	"example.com/billing/internal/orders"
	"example.com/billing/internal/outbox"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/postgres"
	"example.com/billing/internal/platform/telemetry"
	"example.com/billing/internal/proof"
	"example.com/billing/internal/reconcile"
	"example.com/billing/internal/retry"
	"example.com/billing/migrations"
)

// databaseWait is how long a start waits for PostgreSQL, as one does in which everything starts at once.
const databaseWait = time.Minute

// serveOptions are what the demo sets otherwise.
type serveOptions struct {
	metrics *telemetry.Metrics // nil: its own
	ready   func(addr string)  // told the address of the HTTP server once consumers run
}

// serve wires the service in one straight line and runs it until ctx is done. What is opened first is closed last.
//
// Two lifetimes: consumers end with ctx and then drain; what they need to end well (store, relay, producer, HTTP, pool)
// outlives them and ends with the clean-ups.
func serve(ctx context.Context, cfg Config, log *slog.Logger, opt serveOptions) (err error) { //nolint:funlen // the wiring reads best in one piece
	policy, ladder, clock := failure.Policy(cfg.FaultPolicy), cfg.ladder(), time.Now
	metrics := cmp.Or(opt.metrics, telemetry.NewMetrics(version, commit))
	stop := newCleanups(ctx, cfg.StopTimeout)
	defer func() { err = joinStop(err, stop.run()) }()
	life, endLife := context.WithCancel(context.WithoutCancel(ctx)) // of what outlives the consumers
	stop.add("background work", func(context.Context) error { endLife(); return nil })
	background, life := errgroup.WithContext(life)

	// What must be there, and as it was.
	pool, err := postgres.Open(ctx, postgres.Config{URL: cfg.DatabaseURL, MaxConns: cfg.DatabaseMaxConns, Wait: databaseWait, Log: log})
	if err != nil {
		return err
	}
	stop.add("database", func(context.Context) error { pool.Close(); return nil })
	if err := postgres.CheckSchema(ctx, pool, migrations.Files, log); err != nil {
		return err
	}
	if err := postgres.WarnUnsynced(ctx, pool, log); err != nil {
		return err
	}
	reader, topics, err := openTopics(ctx, cfg, ladder, log)
	if err != nil {
		return err
	}
	stop.add("topic reader", func(context.Context) error { reader.Close(); return nil })

	// What we do: claim, charge, settle.
	var relay *outbox.Relay
	var instance *fleet.Instance
	store, err := pgstore.New(pgstore.Config{
		Pool: pool, Environment: cfg.Environment, Account: cfg.ProviderAccount, Lease: cfg.Lease, ProviderTimeout: cfg.ProviderTimeout,
		Clock: clock, Log: log, EventWritten: func() { relay.Notify() },
	})
	if err != nil {
		return err
	}
	if err := refuseBlank(ctx, cfg, ladder, reader.Admin, store); err != nil {
		return err
	}
	if err := install(ctx, cfg, ladder, reader, store, topics, log); err != nil {
		return err
	}
	if err := eachGroup(ctx, cfg, ladder, reader.Admin, topics, store.CountTaken); err != nil {
		return err
	}
	provider, err := httpprovider.New(httpprovider.Config{
		URL: cfg.ProviderURL, Token: cfg.ProviderToken, Timeout: cfg.ProviderTimeout, MaxConns: cfg.Concurrency, Observe: observeProvider(metrics), Clock: clock,
	})
	if err != nil {
		return err
	}
	stop.add("provider connections", func(context.Context) error { provider.Close(); return nil })
	line := hold.NewLine(hold.Config{
		Policy: policy, BreakerRun: 5, BreakerPair: 5 * time.Second, FloodCount: cfg.FloodCount, FloodRatio: cfg.FloodRatio,
		ProbeMin: 200 * time.Millisecond, ProbeMax: time.Second,
		Clock: clock, Log: log, OnTransition: observeHold(metrics, func() { instance.LookSoon() }),
	})
	charging, err := billing.NewService(countingStore{store, metrics}, provider, billing.ServiceConfig{
		InFlight:      cfg.Concurrency,
		Window:        cfg.ProviderKeyTTL - cfg.KeyMargin,
		MaxProcessing: cfg.ProviderMaxProcessing + cfg.Lease, // a send may come that much later than its claim
		Verdict:       line.Verdict, Unwritten: orders.Unwritten(line, clock), Clock: clock, Log: log,
	})
	if err != nil {
		return err
	}

	// What happens next: retry topics, dead letters, or the line is held.
	producer, err := kafkaclient.NewProducer(cfg.kafka(), log)
	if err != nil {
		return err
	}
	stop.add("producer", func(context.Context) error { producer.Close(time.Second); return nil })
	books := books{store, deadletter.NewList(pool), topics, ladder.Main()}
	router := retry.NewRouter(retry.RouterConfig{
		Ladder: ladder, Line: line, Publisher: producer, Ledger: books, Clock: clock, Log: log,
		Observe: func(topic, outcome string) { metrics.Messages.WithLabelValues(topic, outcome).Inc() },
	})
	opener := &proof.Opener{Ladder: ladder, Books: books, Router: router, Clock: clock, Log: log}
	processor := orders.NewProcessor(orders.ProcessorConfig{
		Opener: opener, Charger: charging, Ledger: store, Router: router, Currency: cfg.Currency, TopicID: topics.id,
		MaxAge: time.Duration(cfg.MaxAge), Window: cfg.ProviderKeyTTL - cfg.KeyMargin, Clock: clock,
	})

	// What arrives: the main topic and the tiers, each with a consumer of its own.
	guard := orders.NewPoison(orders.PoisonConfig{Store: store, Next: processor.Process, Opener: opener, Router: router, Window: int64(window(cfg))})
	crew, err := newCrew(cfg, ladder, line, store, topics, guard, metrics, observeHandler(metrics, ladder, log, router.Admit(guard.Handle)), log)
	if err != nil {
		return err
	}

	// What the other instances do, and an operator tells all of them.
	instance, err = fleet.New(fleet.Config{LeaveAfter: cfg.LeaveAfter, Clock: clock, Log: log}, pool, line)
	if err != nil {
		return err
	}
	if err := instance.Look(ctx); err != nil { // started while paused, it is paused from the start
		return err
	}

	// What goes out, what waits for a person, and what nobody took up.
	relay, err = outbox.New(outbox.Config{Pool: pool, Publisher: producer, Topic: resultTopic, Log: log})
	if err != nil {
		return err
	}
	left := &leftWatch{leftBehind: leftBehind{reader, store, ladder, cfg.Group}, log: log}
	left.register(metrics)
	ahead := &aheadWatch{consumers: crew.configs, brokers: reader, books: store, topics: topics, log: log}
	ahead.register(metrics)
	deleted := &deletedWatch{store: store, log: log}
	deleted.register(metrics)
	person, err := newRoom(cfg, ladder, roomDeps{pool, producer, reader, line, crew, instance, charging.Limit, left, ahead, deleted, metrics, log})
	if err != nil {
		return err
	}
	sweeper, err := reconcile.NewSweeper(reconcile.SweeperConfig{Grace: sweepGrace(cfg), Log: log}, store)
	if err != nil {
		return err
	}
	sources := gaugeSources{ladder, crew, instance, reader, relay, person.list, store, log}
	gauges := registerGauges(metrics, sources)
	registerLimit(metrics, charging.Limit)
	balances := func(ctx context.Context) (map[int32]pgstore.Balance, error) {
		return store.Balances(ctx, topics.id(ladder.Main()))
	}
	conserved := newConservation(ladder.Main(), balances, clock, log)
	conserved.register(metrics)

	background.Go(func() error { return store.Run(life) })
	background.Go(func() error { return relay.Run(life) })
	background.Go(func() error { return person.ingester.Run(life) })
	background.Go(func() error { return person.server.Run(life) })
	background.Go(func() error { return sweeper.Run(life) })
	background.Go(func() error { return gauges.run(life, sources) })
	background.Go(func() error { return conserved.run(life) })
	background.Go(func() error { return instance.Run(life) })
	background.Go(func() error { return topics.watch(life, reader, ladder, log) })
	background.Go(func() error { return left.run(life) })
	background.Go(func() error { return ahead.run(life) })
	background.Go(func() error { return deleted.run(life) })
	background.Go(func() error { return crew.watchSetBack(life) })
	stop.add("store, relay, dead letters and HTTP", func(context.Context) error {
		endLife()
		if ended := background.Wait(); !errors.Is(err, ended) { // else it is why the service stops, and said already
			return ended
		}
		return nil
	})

	log.Info("billing serves", "version", version, "topic", ladder.Main(), "group", cfg.Group, "concurrency", cfg.Concurrency, "http", person.server.Addr(),
		"private", person.server.PrivateAddr(), "fault_policy", policy)
	if opt.ready != nil {
		opt.ready(person.server.Addr())
	}
	return consume(ctx, life, crew, instance, person)
}
