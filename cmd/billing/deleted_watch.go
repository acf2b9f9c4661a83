package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"example.com/billing/internal/admin"
	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/telemetry"
)

// noteDeleted keeps what retention deleted before it was handled (hazard H12), until a person has accepted it.
func noteDeleted(store *pgstore.Store, topics topicIDs, m *telemetry.Metrics) func(context.Context, string, int32, int64, int64) error {
	return func(ctx context.Context, topic string, partition int32, from, to int64) error {
		fresh, err := store.NoteDeleted(ctx, pgstore.Deleted{TopicID: topics.id(topic), Topic: topic, Partition: partition, From: from, To: to})
		if err == nil && m != nil {
			m.Lost.WithLabelValues(topic).Add(float64(fresh))
		}
		return err
	}
}

// deletedWatch shows these losses in every instance.
type deletedWatch struct {
	store *pgstore.Store
	log   *slog.Logger

	mu      sync.Mutex
	deleted []pgstore.Deleted
}

// deletedEvery is how long a loss, or that it was accepted, can stay unnoticed.
const deletedEvery = 5 * time.Second

func (w *deletedWatch) register(m *telemetry.Metrics) {
	m.GaugeFunc("billing_deleted_records", "Offsets that retention deleted before they were handled; see `billing topics accept-deleted`.",
		[]string{"topic"}, func() (gs []telemetry.Gauge) {
			w.mu.Lock()
			defer w.mu.Unlock()
			sums := map[string]int64{}
			for _, d := range w.deleted {
				sums[d.Topic] += d.To - d.From
			}
			for topic, n := range sums {
				gs = append(gs, telemetry.Gauge{Labels: []string{topic}, Value: float64(n)})
			}
			return gs
		})
}

// run reads until ctx is done. What cannot be read keeps its state: readiness has a part for the database.
func (w *deletedWatch) run(ctx context.Context) error {
	tick := time.NewTicker(deletedEvery)
	defer tick.Stop()
	for {
		w.refresh(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *deletedWatch) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, deletedEvery)
	defer cancel()
	deleted, err := w.store.DeletedRecords(ctx)
	if err != nil {
		w.log.Debug("deleted records not read", "error", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range deleted {
		if !slices.Contains(w.deleted, d) {
			w.log.Error("records were deleted before they were handled, and nobody has accepted that", "topic", d.Topic, "partition", d.Partition,
				"from", d.From, "to", d.To, "next", "billing topics accept-deleted")
		}
	}
	w.deleted = deleted
}

// deletedShown bounds the ranges in one detail.
const deletedShown = 10

// state is what readiness shows.
func (w *deletedWatch) state(context.Context) admin.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.deleted) == 0 {
		return admin.Health{State: admin.Ready}
	}
	var ranges []string
	for _, d := range w.deleted[:min(len(w.deleted), deletedShown)] {
		ranges = append(ranges, rangeOf(d))
	}
	if more := len(w.deleted) - len(ranges); more > 0 {
		ranges = append(ranges, fmt.Sprintf("%d more ranges", more))
	}
	return admin.Health{State: admin.Unhandled, Detail: "retention deleted records before they were handled: " + strings.Join(ranges, ", ") +
		": have them produced again, then run `billing topics accept-deleted`"}
}

func rangeOf(d pgstore.Deleted) string {
	return fmt.Sprintf("%s[%d] offsets %d to %d", d.Topic, d.Partition, d.From, d.To-1)
}

func newAcceptDeletedCommand() *cobra.Command {
	return &cobra.Command{
		Use: "accept-deleted", Short: "Take as they are the losses of records that retention deleted before they were handled", Args: cobra.NoArgs,
		Long: "Records that were deleted before they were handled are lost here: nobody charges their orders. `serve` keeps each range of offsets and\n" +
			"/readyz is red. Have the producers send those orders again (a repetition is charged once), lengthen the retention (`billing topics plan`),\n" +
			"then accept. The command prints the ranges; it may run while the service runs.",
		Example: "  billing topics accept-deleted",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(needsDatabase)
			if err != nil {
				return err
			}
			store, pool, err := openStore(cmd.Context(), cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			defer pool.Close()
			return acceptDeleted(cmd.Context(), store, cmd.OutOrStdout())
		},
	}
}

func acceptDeleted(ctx context.Context, store *pgstore.Store, out io.Writer) error {
	accepted, err := store.AcceptDeleted(ctx)
	if err != nil {
		return err
	}
	if len(accepted) == 0 {
		fmt.Fprintln(out, "nothing to accept")
	}
	for _, d := range accepted {
		fmt.Fprintln(out, "accepted as lost:", rangeOf(d))
	}
	return nil
}
