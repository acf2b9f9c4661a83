package pgstore

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// BenchmarkChargeCycle is the database's share of a charge: 256 callers claim and settle orders of their own, as 256
// messages in flight do with a provider that answers at once. Each operation is one order: row, attempt and event.
func BenchmarkChargeCycle(b *testing.B) {
	const callers = 256
	f := newFixture(b)
	var wg sync.WaitGroup
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	failures := make(chan error, callers)
	before := cpu(b)
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for range left {
				if err := f.cycle(b); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	select {
	case err := <-failures:
		b.Fatal(err)
	default:
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "go-cpu-µs/charge")
	b.ReportMetric(float64(f.serverCPU(b).Microseconds())/float64(b.N), "pg-cpu-µs/charge")
	require.Equal(b, b.N, f.count(b, `SELECT count(*) FROM outbox`))
}

func (f *fixture) cycle(b *testing.B) error {
	c, _, err := f.Claim(b.Context(), f.order())
	if err != nil {
		return err
	}
	held, err := f.Settle(b.Context(), c, succeeded(c, "ch_"+c.ID.String()))
	if err == nil && !held {
		err = fmt.Errorf("order %s was not held", c.Order.ID)
	}
	return err
}

// cpu is the processor time that this process has used; the database's is not in it.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverCPU is the processor time of the store's sessions, where the server runs on this machine; else 0.
func (f *fixture) serverCPU(b *testing.B) (total time.Duration) {
	const tick = 10 * time.Millisecond
	rows, err := f.other.Query(b.Context(), `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'billing'`)
	require.NoError(b, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(b, err)
	for _, pid := range pids {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); len(fields) > 12 {
			user, _ := strconv.Atoi(fields[11])
			system, _ := strconv.Atoi(fields[12])
			total += time.Duration(user+system) * tick
		}
	}
	return total
}
