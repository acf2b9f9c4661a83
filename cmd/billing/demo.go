package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"example.com/billing/internal/demo/broker"
	"example.com/billing/internal/demo/loadgen"
	embedded "example.com/billing/internal/demo/postgres"
	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/platform/postgres"
	"example.com/billing/internal/platform/telemetry"
	"example.com/billing/migrations"
)

// demoToken is the operator token of the demo; serve refuses it.
const demoToken = "demo-operator-token"

type demoFlags struct {
	rate     float64
	duration time.Duration
	seed     uint64
	http     string
	dir      string
	logs     bool
}

func newDemoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use: "demo", Short: "Run all of it in one process: Kafka, Postgres, provider, orders and the service", Args: cobra.NoArgs,
		Long: "demo starts an embedded Kafka and Postgres (or uses BILLING_DATABASE_URL), a provider that declines, hangs and fails now and then, an\n" +
			"order generator that also makes duplicates and bad orders, and the service itself, by the same code as `billing serve`. Ctrl-C stops it and\nprints where every order ended.",
		Example: "  billing demo\n  billing demo --rate 500 --for 30s",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), cmd.OutOrStdout(), f) },
	}
	cmd.Flags().Float64Var(&f.rate, "rate", 50, "orders a second")
	cmd.Flags().DurationVar(&f.duration, "for", 0, "stop by itself after this time; 0: at Ctrl-C")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "of the orders and of the provider's moods")
	cmd.Flags().StringVar(&f.http, "http", "127.0.0.1:8080", "address of health, metrics and admin")
	cmd.Flags().StringVar(&f.dir, "dir", "", "keep the data here; empty: in a temporary directory, removed at the end")
	cmd.Flags().BoolVar(&f.logs, "logs", false, "print the service's log instead of the summary")
	cmd.AddCommand(newDemoProviderCommand(), newDemoShopCommand())
	return cmd
}

// demo is what runs beside the service.
type demo struct {
	flags     demoFlags
	cfg       Config
	provider  *providersim.Server
	producer  *kafkaclient.Producer
	generator *loadgen.Generator
	metrics   *telemetry.Metrics
	logFile   string

	mu    sync.Mutex
	tally loadgen.Tally
}

func runDemo(ctx context.Context, out io.Writer, f demoFlags) (err error) {
	if f.rate <= 0 || f.rate > 20000 {
		return &usageError{[]string{"--rate must be more than 0 and at most 20000"}}
	}
	if f.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	if f.dir == "" {
		if f.dir, err = os.MkdirTemp("", "billing-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(f.dir)) }()
		if err := os.Chmod(f.dir, 0o711); err != nil { // started by root, Postgres runs as another user below it
			return err
		}
	}
	stop := newCleanups(ctx, demoStop)
	defer func() { err = joinStop(err, stop.run()) }()
	fmt.Fprintln(out, "starting Kafka, Postgres and the provider …")
	d, err := startDemo(ctx, out, f, stop)
	if err != nil {
		return err
	}
	return d.run(ctx, out)
}

// demoStop is for everything, the service included.
const demoStop = 10 * time.Second

// startDemo starts what the service needs and prepares schema and topics, by the code of the commands.
func startDemo(ctx context.Context, out io.Writer, f demoFlags, stop *cleanups) (*demo, error) {
	d := &demo{flags: f, metrics: telemetry.NewMetrics(version, commit)}
	log := slog.New(slog.DiscardHandler)
	databaseURL := os.Getenv("BILLING_DATABASE_URL")
	if databaseURL == "" {
		server, err := embedded.Start(ctx, embedded.Config{Dir: filepath.Join(f.dir, "postgres"), Log: slog.New(slog.NewTextHandler(out, nil))})
		if err != nil {
			return nil, err
		}
		stop.add("embedded Postgres", func(context.Context) error { return server.Stop() })
		databaseURL = server.URL
	}
	kafka, err := broker.Start(filepath.Join(f.dir, "kafka"), 0)
	if err != nil {
		return nil, err
	}
	stop.add("embedded Kafka", func(context.Context) error { kafka.Close(); return nil })
	if _, err := postgres.Migrate(ctx, databaseURL, migrations.Files); err != nil {
		return nil, err
	}
	address, err := d.startProvider(ctx, stop)
	if err != nil {
		return nil, err
	}
	if d.cfg, err = demoConfig(f, kafka.Addr, databaseURL, address); err != nil {
		return nil, err
	}
	if err := createDemoTopics(ctx, d.cfg); err != nil {
		return nil, err
	}
	if d.producer, err = kafkaclient.NewProducer(d.cfg.kafka(), log); err != nil {
		return nil, err
	}
	stop.add("order generator", func(context.Context) error { d.producer.Close(time.Second); return nil })
	d.generator, err = loadgen.New(loadgen.Config{Topic: d.cfg.Topic, Seed: f.seed, Currency: d.cfg.Currency, Repeats: .02, Conflicts: .005, Bad: .01, Odd: .02})
	return d, err
}

// demoConfig are the settings of the service, by the same reading and the same checks as any others.
func demoConfig(f demoFlags, brokers, databaseURL, providerURL string) (Config, error) {
	var c Config
	k := c.read()
	c.KafkaBrokers, c.DatabaseURL, c.ProviderURL = brokers, databaseURL, providerURL
	c.HTTPAddr, c.AdminTokens = f.http, ""
	c.ProviderTimeout = 2 * time.Second
	if problems := k.check(needsAll); len(problems) > 0 {
		return c, &usageError{problems}
	}
	c.AdminTokens = "demo:operator:" + demoToken // the check would refuse it, rightly
	return c, nil
}

func createDemoTopics(ctx context.Context, cfg Config) error {
	admin, err := kafkaclient.NewAdmin(cfg.kafka())
	if err != nil {
		return err
	}
	defer admin.Close()
	plan, err := planTopics(ctx, admin, cfg, 0)
	if err != nil {
		return err
	}
	return createTopics(ctx, admin, plan.Create)
}

// startProvider serves the simulator on a free port.
func (d *demo) startProvider(ctx context.Context, stop *cleanups) (url string, err error) {
	if d.provider, err = providersim.New(demoMoods(d.flags.seed)); err != nil {
		return "", err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: d.provider.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with the clean-up
	stop.add("provider", func(context.Context) error { return server.Close() })
	return "http://" + listener.Addr().String(), nil
}

// run runs the service and the orders until ctx is done, then prints the balance.
func (d *demo) run(ctx context.Context, out io.Writer) error {
	log, err := d.logger(out)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	ready := make(chan string, 1)
	group.Go(func() error {
		return serve(ctx, d.cfg, log, serveOptions{metrics: d.metrics, ready: func(addr string) { ready <- addr }})
	})
	select {
	case addr := <-ready:
		d.printAddresses(out, addr)
	case <-ctx.Done():
		return group.Wait()
	}
	group.Go(func() error { return d.generator.AtRate(ctx, d.producer, d.flags.rate, 0, d.sent) })
	if !d.flags.logs {
		group.Go(func() error { return d.summarise(ctx, out) })
	}
	err = group.Wait()
	return errors.Join(err, d.printBalance(out))
}

// logger writes the service's log beside the data, where the summary would be disturbed by it.
func (d *demo) logger(out io.Writer) (*slog.Logger, error) {
	if d.flags.logs {
		return telemetry.NewLogger(out, d.cfg.LogLevel, d.cfg.LogFormat)
	}
	file, err := os.CreateTemp("", "billing-demo-*.log")
	if err != nil {
		return nil, err
	}
	d.logFile = file.Name()
	return telemetry.NewLogger(file, d.cfg.LogLevel, d.cfg.LogFormat)
}
