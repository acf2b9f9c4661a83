package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/testkit"
)

// TestClassifySQLState has a row for every class of SQLSTATE, and for every code with a meaning of its own.
func TestClassifySQLState(t *testing.T) {
	for want, codes := range map[verdict]string{
		broken:   "08000 08001 08003 08004 08006 08007 40003 57000 57P01 57P02 57P04 57P05 58000 58030 58P01 58P02 XX000 XX001 XX002",
		down:     "28000 28P01 3D000 53000 53100 53200 54000 54001 54011 54023 55000 55P02 55P04 57P03 F0000 F0001",
		busy:     "25000 25001 25P01 25P02 25P03 25P04 40000 40001 40002 53300 53400",
		waited:   "40P01 55006 55P03 57014",
		foreign:  "08P01 26000 42P05",
		readOnly: "25006",
		schema:   "0A001 21000 38000 38003 39000 39P01 3F000 42000 42501 42601 42703 42883 42P01 42P02 42P18 44000 HV000 HV00N P0000 P0001 P0002 P0004",
		replan:   "0A000 42804",
		refused:  "22000 22001 22003 22008 22021 22P02 22P05 23000 23502 23503 23505 23514 23P01",
		guarded:  "BL001 BL002 BL003 BL004 BL005 BL006",
		paused:   "BL007",
	} {
		for code := range strings.FieldsSeq(codes) {
			require.Equal(t, want, classify(fmt.Errorf("settle: %w", &pgconn.PgError{Code: code}), unsent), code)
		}
	}
}

// TestOnlyTheRowItselfIsTheOrdersFault goes through every class of SQLSTATE that can be written, whoever makes it up: what
// everyone may get at once costs no order (hazard H21).
func TestOnlyTheRowItselfIsTheOrdersFault(t *testing.T) {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, a := range letters {
		for _, b := range letters {
			class := string(a) + string(b)
			for _, code := range []string{"000", "001", "006", "014", "P01", "P02", "P03", "P05", "ZZZ"} {
				for _, phase := range []phase{acquiring, unsent, sent} {
					got := classify(&pgconn.PgError{Code: class + code}, phase)
					fault := failure.Of(got.failure("settle", errors.New("x"))).Fault(failure.Hold)
					if phase != acquiring && class == "BL" {
						continue
					}
					require.NotEqual(t, failure.OfMessage, fault, "%s%s", class, code)
					if phase != acquiring && (class == "22" || class == "23") {
						require.Equal(t, failure.DatabaseRefused, got.reason)
						continue
					}
					require.Contains(t, []failure.Reason{failure.DatabaseDown, failure.DatabaseSchema, failure.DatabaseBusy, failure.DatabaseReadOnly}, got.reason, "%s%s", class, code)
				}
			}
		}
	}
	for _, code := range []string{"", "4", "nonsense"} {
		require.Equal(t, broken, bySQLState(code), code)
	}
}

func TestClassifyWithoutAnswer(t *testing.T) {
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for name, row := range map[string]struct {
		err   error
		phase phase
		want  verdict
	}{
		"our own stop":                    {context.Canceled, sent, leaving},
		"pool used up":                    {context.DeadlineExceeded, acquiring, waited},
		"pool closed":                     {errors.New("closed pool"), acquiring, down},
		"only replicas are left":          {fmt.Errorf("connect: %w", pgconn.ErrReadOnlyConnection), acquiring, readOnly},
		"no place at connecting":          {&pgconn.PgError{Code: "53300"}, acquiring, busy},
		"starting up at connecting":       {&pgconn.PgError{Code: "57P03"}, acquiring, down},
		"wrong password at connecting":    {&pgconn.PgError{Code: "28P01"}, acquiring, down},
		"crash at connecting":             {&pgconn.PgError{Code: "57P02"}, acquiring, down},
		"answer lost":                     {io.ErrUnexpectedEOF, sent, broken},
		"reset":                           {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, sent, broken},
		"closed under the commit":         {errors.New("conn closed"), sent, broken},
		"no answer in time":               {context.DeadlineExceeded, sent, verdict{reason: failure.DatabaseDown, doubt: true}},
		"commit became a rollback":        {pgx.ErrTxCommitRollback, unsent, busy},
		"cannot be encoded":               {errors.New("failed to encode args[3]: …"), unsent, schema},
		"columns are of another type":     {pgx.ScanArgError{ColumnIndex: 1, Err: errors.New("cannot scan")}, unsent, schema},
		"nothing was sent, by pgx's word": {unsentError{timeout}, sent, verdict{reason: failure.DatabaseDown, again: true}},
	} {
		require.Equal(t, row.want, classify(row.err, row.phase), name)
	}
}

type unsentError struct{ error }

func (unsentError) SafeToRetry() bool { return true }

// TestRealFailures makes the server itself produce what the table promises to know.
func TestRealFailures(t *testing.T) {
	f := newFixture(t)
	reasonOf := func(sql string, args ...any) failure.Reason {
		err := f.patiently(t.Context(), "test", func(ctx context.Context, db session) error {
			_, err := db.Exec(ctx, sql, args...)
			return err
		})
		f, ok := errors.AsType[*failure.Error](err)
		require.True(t, ok, "%v", err)
		return f.Reason
	}
	require.Equal(t, failure.DatabaseRefused, reasonOf(`SELECT $1::text`, "a\x00b"), "NUL byte")
	require.Equal(t, failure.DatabaseRefused, reasonOf(`SELECT $1::text`, "\xff"), "bad UTF-8")
	require.Equal(t, failure.DatabaseRefused, reasonOf(`SELECT 2147483647::integer + 1`), "out of range")
	require.Equal(t, failure.DatabaseSchema, reasonOf(`SELECT $1::integer`, int64(1)<<40), "encoding")
	require.Equal(t, failure.DatabaseSchema, reasonOf(`DO $$ BEGIN RAISE EXCEPTION 'a trigger that is not ours'; END $$`), "P0001")
	require.Equal(t, failure.DatabaseDown, reasonOf(`DO $$ BEGIN RAISE EXCEPTION 'stack depth' USING ERRCODE = '54001'; END $$`), "54001")
	require.Equal(t, failure.DatabaseRefused, reasonOf(`INSERT INTO installation VALUES (false, '', '', '')`), "check constraint")
	require.Equal(t, failure.DatabaseSchema, reasonOf(`SELECT nothing FROM charges`), "undefined column")
	require.Equal(t, failure.DatabaseSchema, reasonOf(`SELECT FROM no_such_table`), "undefined table")
	require.Equal(t, failure.DatabaseDown, reasonOf(`SELECT pg_terminate_backend(pg_backend_pid())`), "ended session, each time again")
	require.Equal(t, failure.DatabaseBusy, reasonOf(`SET statement_timeout = '10ms'; SELECT pg_sleep(1)`), "statement_timeout")
}

func TestUnreachableServerIsDown(t *testing.T) {
	f := newFixture(t)
	cfg := f.pool.Config()
	cfg.ConnConfig.Host, cfg.ConnConfig.Port, cfg.ConnConfig.Fallbacks = "127.0.0.1", 1, nil
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, _, err = startStore(t, pool).Claim(t.Context(), f.order())
	requireReason(t, failure.DatabaseDown, err)
}

// TestReadOnlyServer: after a failover the old sessions lead to a replica. They are thrown away, so that the next
// connection asks again who may be written to.
func TestReadOnlyServer(t *testing.T) {
	f := newFixture(t)
	c := f.mustClaim(t, f.order())
	_, err := f.pool.Exec(t.Context(), `ALTER DATABASE `+f.pool.Config().ConnConfig.Database+` SET default_transaction_read_only = on`)
	require.NoError(t, err)
	demote(t, f)
	_, _, err = f.Claim(t.Context(), f.order())
	requireReason(t, failure.DatabaseReadOnly, err)
	_, _, err = f.Claim(t.Context(), f.order())
	requireReason(t, failure.DatabaseReadOnly, err) // and a new connection is refused for the same reason

	promote(t, f)
	require.True(t, f.mustSettle(t, c, succeeded(c, "ch_1")))
}

// demote makes the open sessions read-only, as a failover does.
func demote(t *testing.T, f *fixture) {
	t.Helper()
	for _, conn := range f.pool.AcquireAllIdle(t.Context()) {
		_, err := conn.Exec(t.Context(), `SET default_transaction_read_only = on`)
		require.NoError(t, err)
		conn.Release()
	}
}

func promote(t *testing.T, f *fixture) {
	t.Helper()
	cc := f.pool.Config().ConnConfig.Copy()
	cc.ValidateConnect = nil
	conn, err := pgx.ConnectConfig(t.Context(), cc)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `BEGIN READ WRITE`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `ALTER DATABASE `+cc.Database+` RESET default_transaction_read_only`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `COMMIT`)
	require.NoError(t, err)
}

func TestPoolUsedUpIsBusy(t *testing.T) {
	t.Parallel() // it waits
	f := newFixture(t)
	ctx, cancel := context.WithTimeout(t.Context(), acquireTimeout+testkit.Patience)
	defer cancel()
	for range f.pool.Config().MaxConns {
		conn, err := f.pool.Acquire(ctx)
		require.NoError(t, err)
		t.Cleanup(conn.Release)
	}
	_, _, err := f.Claim(ctx, f.order())
	requireReason(t, failure.DatabaseBusy, err)
}

func TestLockedRowIsBusy(t *testing.T) {
	t.Parallel() // it waits
	f := newFixture(t)
	o := f.order()
	c := f.mustClaim(t, o)
	tx, err := f.other.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context()) //nolint:errcheck // the test's own lock
	_, err = tx.Exec(t.Context(), `SELECT FROM charges WHERE order_id = $1 FOR UPDATE`, o.ID)
	require.NoError(t, err)
	_, err = f.Settle(t.Context(), c, succeeded(c, "ch_1"))
	requireReason(t, failure.DatabaseBusy, err)
	require.NoError(t, tx.Rollback(t.Context()))
	require.True(t, f.mustSettle(t, c, succeeded(c, "ch_1")), "the same settlement again, once the lock is gone")
}

// TestFailureShowsNoRow: what a log line shows of a refused row is the rule, never the row.
func TestFailureShowsNoRow(t *testing.T) {
	f := newFixture(t)
	o := f.order()
	o.Amount.Minor = -1
	_, _, err := f.Claim(t.Context(), o)
	require.ErrorContains(t, err, "charges_amount_minor_check")
	require.NotContains(t, err.Error(), o.CustomerID.String())
}
