package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/platform/kafkaclient"
)

// sent counts what the generator published.
func (d *demo) sent(e loadgen.Event, at time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tally.Count(e, at, err)
}

func (d *demo) published() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tally.Total()
}

func (d *demo) printAddresses(out io.Writer, addr string) {
	base := "http://" + addr
	dlq := d.cfg.ladder().DeadLetters()
	fmt.Fprintf(out, `
  readiness     %[1]s/readyz
  metrics       %[1]s/metrics
  dead letters  %[1]s/admin/dlq     (Authorization: Bearer %[2]s)
  provider      %[3]s/_ledger/summary
  Kafka         %[4]s
`, base, demoToken, d.cfg.ProviderURL, d.cfg.KafkaBrokers)
	if d.logFile != "" {
		fmt.Fprintf(out, "  log           %s\n", d.logFile)
	}
	fmt.Fprintf(out, `
  send the dead letters back:
    curl -X POST -H 'Authorization: Bearer %s' '%s/admin/dlq/%s/replay?target_topic=%s'

`, demoToken, base, dlq, d.cfg.Topic)
}

// summarise shows each second where the orders are: one line that is written over on a terminal, else a line now and then.
func (d *demo) summarise(ctx context.Context, out io.Writer) error {
	reader, err := kafkaclient.NewReader(d.cfg.kafka(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer reader.Close()
	terminal, every := isTerminal(out), time.Second
	if !terminal {
		every = 5 * time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var before float64
	for {
		select {
		case <-ctx.Done():
			if terminal {
				fmt.Fprintln(out)
			}
			return nil
		case <-tick.C:
		}
		charged := d.count("charged")
		line := fmt.Sprintf("orders in %d   charged %.0f   duplicate %.0f   waiting %s   dead %.0f   %.0f charges/s", d.published(), charged,
			d.count("duplicate"), d.waiting(ctx, reader), d.count("dead"), (charged-before)/every.Seconds())
		before = charged
		if terminal {
			fmt.Fprintf(out, "\r\x1b[K  %s", line)
		} else {
			fmt.Fprintln(out, " ", line)
		}
	}
}

// count is the number of messages with the outcome, over all topics.
func (d *demo) count(outcome string) (n float64) {
	n = d.metrics.MessageCount(d.cfg.Topic, outcome)
	for _, t := range d.cfg.ladder().Tiers() {
		n += d.metrics.MessageCount(t.Topic, outcome)
	}
	return n
}

// waiting is what lies in the tiers: "5s:12 30s:3 5m:0".
func (d *demo) waiting(ctx context.Context, reader *kafkaclient.Reader) string {
	var parts []string
	for _, t := range d.cfg.ladder().Tiers() {
		name := strings.TrimPrefix(t.Topic, d.cfg.Topic+".retry-")
		n, err := lag(ctx, reader.Admin, t.Group, t.Topic)
		if err != nil {
			return "?"
		}
		parts = append(parts, fmt.Sprintf("%s:%d", name, n))
	}
	return strings.Join(parts, " ")
}

// balanceTimeout is for reading the balance after the service has stopped.
const balanceTimeout = 5 * time.Second

// printBalance shows where the orders ended, by the service's own books and by the provider's ledger.
func (d *demo) printBalance(out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), balanceTimeout)
	defer cancel()
	b, err := d.balance(ctx)
	if err != nil {
		return fmt.Errorf("read the balance: %w", err)
	}
	fmt.Fprintf(out, `
balance of %s, records taken from the topic
  taken      %6d   (%d published)
  charged    %6d
  duplicate  %6d
  waiting    %6d
  dead       %6d
  difference %6d
`, d.cfg.Topic, b.Taken, d.published(), b.Charged, b.Duplicate, b.Waiting, b.Dead, b.Difference)
	sum := d.provider.Summary()
	fmt.Fprintf(out, "provider: %d orders charged, %d of them more than once\n", sum.Charged, sum.Double)
	if b.Difference != 0 || sum.Double != 0 {
		return errDifferences
	}
	return nil
}

func (d *demo) balance(ctx context.Context) (pgstore.Balance, error) {
	log := slog.New(slog.DiscardHandler)
	store, pool, err := openStore(ctx, d.cfg, log)
	if err != nil {
		return pgstore.Balance{}, err
	}
	defer pool.Close()
	reader, topics, err := openTopics(ctx, d.cfg, d.cfg.ladder(), log)
	if err != nil {
		return pgstore.Balance{}, err
	}
	defer reader.Close()
	return store.Balance(ctx, topics.id(d.cfg.Topic))
}
