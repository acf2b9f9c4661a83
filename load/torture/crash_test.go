package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/demo/loadgen"
	"example.com/billing/internal/demo/providersim"
	"example.com/billing/internal/platform/crash"
	"example.com/billing/load/rig"
	"example.com/billing/load/torture/verdict"
)

func TestMain(m *testing.M) { rig.TestMain(m) }

// crashPoint is a step at which the process dies, and what there is when it has.
type crashPoint struct {
	step    string
	rules   []providersim.Rule
	replay  bool   // by a person, after the order was refused
	beside  bool   // beside the order's way: its offset may have moved meanwhile
	state   string // of the order's row; empty: it is on its way again meanwhile
	charges int
	retried int // records in the first retry topic
	told    int // result events on the topic, for those beside
	outbox  int // events in the outbox, for those beside
}

var (
	failsOnce   = []providersim.Rule{{Kind: providersim.Status500After, Share: 1, First: 1}}
	refusedOnce = []providersim.Rule{{Kind: providersim.Status400, Share: 1, First: 1}}
)

var crashPoints = []crashPoint{
	{step: crash.AfterClaim, state: "in_flight"},
	{step: crash.BeforeSend, state: "in_flight"},
	{step: crash.AfterAnswer, state: "in_flight", charges: 1},
	{step: crash.BeforeSettle, state: "in_flight", charges: 1},
	{step: crash.AfterSettle, state: "succeeded", charges: 1},
	{step: crash.BeforeRetryPublish, rules: failsOnce, state: "unknown", charges: 1},
	{step: crash.AfterRetryPublish, rules: failsOnce, state: "unknown", charges: 1, retried: 1},
	{step: crash.BeforeStoreOffset, state: "succeeded", charges: 1},
	{step: crash.BeforeCommit, state: "succeeded", charges: 1},
	{step: crash.OutboxPublished, beside: true, state: "succeeded", charges: 1, told: 1, outbox: 1},
	{step: crash.OutboxDeleted, beside: true, state: "succeeded", charges: 1, told: 1},
	{step: crash.ReplayTaken, rules: refusedOnce, replay: true, state: "retry_wait"},
	{step: crash.ReplayPublished, rules: refusedOnce, replay: true, retried: 1},
	{step: crash.ReplayMarked, rules: refusedOnce, replay: true, retried: 1},
}

// The process dies at the step, by nobody's hand but its own; the one that comes after it charges the order once.
func TestEachCrashPoint(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "billing")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "crashpoints", "-o", binary, "example.com/billing/cmd/billing").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, c := range crashPoints {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			c.play(t, binary)
		})
	}
}

func (c crashPoint) play(t *testing.T, binary string) {
	s := newStage(t, binary, plan{seed: 1, instances: 1, partitions: 1, events: 1, spell: time.Millisecond, rules: c.rules})
	i := s.crew[0]
	healthy := i.Env
	i.Env = append(i.Env, "BILLING_CRASH_AT="+c.step)
	p, err := i.launch()
	require.NoError(t, err)
	require.NoError(t, rig.Await(t.Context(), 20*time.Second, func() error { _, err := i.Metric(t.Context(), "go_goroutines"); return err }))
	began := time.Now()
	events, err := s.sell(t.Context(), began)
	require.NoError(t, err)
	if c.replay {
		s.replay(t, i)
	}
	c.awaitDeath(t, p)
	c.checkDeath(t, s, events[0])

	i.Env = healthy
	require.NoError(t, s.raise(t.Context()))
	if c.replay {
		s.exec(t, `UPDATE dead_letters SET lease_until = now() WHERE lease_until IS NOT NULL`) // its minute is over
		s.replay(t, i)
	}
	c.checkRest(t, s, events, began)
	s.stopAll(t.Context())
	require.Empty(t, s.times.found())
}

// newStage sets a stage up whose instances do not run yet.
func newStage(t *testing.T, binary string, p plan) *stage {
	dir, err := os.MkdirTemp("", "billing-crash-") //nolint:usetesting // whose directory is closed to the user that Postgres runs as
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755), "Postgres runs as another user")
	s, err := setUp(t.Context(), options{binary: binary}, p, dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(s.crew[0].Log)
			t.Logf("%s\n%s", s.times, log)
		}
		require.NoError(t, s.tearDown())
		require.NoError(t, os.RemoveAll(dir))
	})
	return s
}

// awaitDeath shows that the point was reached: the process is dead by SIGKILL, and only the point sends one.
func (crashPoint) awaitDeath(t *testing.T, p *rig.Process) {
	select {
	case <-p.Exited():
	case <-time.After(20 * time.Second):
		p.Kill()
		require.FailNow(t, "the step was not reached")
	}
	status, ok := p.Ended().Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, status.Signaled(), "it ended by itself: %s", p.Ended())
	require.Equal(t, syscall.SIGKILL, status.Signal())
}

// checkDeath shows that it was this point and no other.
func (c crashPoint) checkDeath(t *testing.T, s *stage, e loadgen.Event) {
	require.Len(t, s.records(t, s.ladder.Tiers()[0].Topic), c.retried)
	if c.state != "" {
		var state string
		s.query(t, &state, `SELECT state FROM charges WHERE order_id = $1`, e.OrderID)
		require.Equal(t, c.state, state)
		require.Equal(t, c.charges, s.accounts()[e.OrderID.String()].Charges)
	}
	switch {
	case c.beside:
		var outbox int
		s.query(t, &outbox, `SELECT count(*) FROM outbox`)
		require.Equal(t, c.outbox, outbox)
		require.Len(t, s.records(t, results), c.told)
	case !c.replay:
		committed, err := s.committed(t.Context(), groupTopic{s.group, s.ladder.Main()})
		require.NoError(t, err)
		require.Empty(t, committed, "no offset has moved")
	}
}

func (c crashPoint) checkRest(t *testing.T, s *stage, events []loadgen.Event, began time.Time) {
	charged := func() error {
		if n := s.accounts()[events[0].OrderID.String()].Charges; n == 0 {
			return fmt.Errorf("charged %d times", n)
		}
		return nil
	}
	require.NoError(t, rig.Await(t.Context(), restWithin, charged))
	require.NoError(t, s.awaitRest(t.Context(), events))
	evidence, err := s.gather(t.Context(), events, nil, began)
	require.NoError(t, err)
	require.Equal(t, 1, evidence.Accounts[events[0].OrderID.String()].Charges)
	require.Zero(t, evidence.Books.Difference, "%+v", evidence.Books)
	if c.replay { // the verdict knows no person who sends a refused order back
		return
	}
	v := verdict.Of(evidence)
	require.Empty(t, v.Problems)
	require.Equal(t, 1, v.Charged)
}

// replay asks for it as a person does, when the letter is there. The instance may die of the question.
func (s *stage) replay(t *testing.T, i *instance) {
	require.NoError(t, rig.Await(t.Context(), 30*time.Second, func() error {
		var n int
		s.query(t, &n, `SELECT count(*) FROM dead_letters`)
		if n == 0 {
			return fmt.Errorf("no dead letter is listed")
		}
		return nil
	}))
	path := "/admin/dlq/" + s.ladder.DeadLetters() + "/replay"
	status, _, err := i.Post(t.Context(), path, adminToken, map[string]any{"reason": "the provider has mended it"})
	if err != nil {
		return // it died
	}
	require.Less(t, status, 300)
}

func (s *stage) records(t *testing.T, topic string) []verdict.Record {
	records, err := s.read(t.Context(), topic, nil)
	require.NoError(t, err)
	return records
}

func (s *stage) query(t *testing.T, to any, sql string, args ...any) {
	conn, err := pgx.Connect(t.Context(), s.database.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(to))
}

func (s *stage) exec(t *testing.T, sql string) {
	conn, err := pgx.Connect(t.Context(), s.database.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}
