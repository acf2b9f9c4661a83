package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/billing/internal/failure"
)

// phase is how far a statement came before it failed. pgx's errors do not tell by themselves: the same deadline error
// comes from a pool that is used up and from a statement that may have been committed.
type phase uint8

const (
	acquiring phase = iota // no connection: nothing was sent
	unsent                 // the connection lives and the server said nothing: our own encoding failed
	sent                   // anything may have happened
)

// verdict is what an error of Postgres or pgx means.
type verdict struct {
	reason failure.Reason
	again  bool // worth another try at once, within the process
	doubt  bool // the statement may have been committed all the same
	reset  bool // the pool leads to a server that must not be written to
	final  bool // one of our own guards said it of this very row
}

var (
	busy     = verdict{reason: failure.DatabaseBusy, again: true}
	waited   = verdict{reason: failure.DatabaseBusy} // waited long already: for a lock, for a connection, for the end of a statement
	down     = verdict{reason: failure.DatabaseDown}
	broken   = verdict{reason: failure.DatabaseDown, again: true, doubt: true} // this session is gone; the next may work
	foreign  = verdict{reason: failure.DatabaseDown, again: true, reset: true} // the session is not the one that it was
	readOnly = verdict{reason: failure.DatabaseReadOnly, reset: true}
	schema   = verdict{reason: failure.DatabaseSchema}
	replan   = verdict{reason: failure.DatabaseSchema, again: true, reset: true} // types have changed; new sessions plan anew
	refused  = verdict{reason: failure.DatabaseRefused}
	guarded  = verdict{reason: failure.DatabaseRefused, final: true}
	paused   = verdict{reason: failure.OperatorPause}
	leaving  = verdict{reason: failure.ShuttingDown, doubt: true}
)

// byCode are the SQLSTATEs with a meaning of their own; byClass holds for the rest of their class (first two letters).
// Only what our own guards (BL) say about a row is the order's own fault. What classes 22 and 23 say is, if other orders fare
// better: a constraint that somebody added refuses everyone. All else is the database's, and holds the line if it lasts
// (hazard H21).
var byCode = map[string]verdict{
	"08P01": foreign,  // protocol_violation: a pooler that does not know what we sent
	"0A000": replan,   // feature_not_supported
	"25006": readOnly, // read_only_sql_transaction
	"26000": foreign,  // invalid_sql_statement_name: another session than the one that prepared it
	"40003": broken,   // statement_completion_unknown
	"40P01": waited,   // deadlock_detected
	"42804": replan,   // datatype_mismatch: a column was widened, and a trigger's plan in this session is of before
	"42P05": foreign,  // duplicate_prepared_statement: as 26000
	"53300": busy,     // too_many_connections
	"53400": busy,     // configuration_limit_exceeded
	"55006": waited,   // object_in_use
	"55P03": waited,   // lock_not_available: lock_timeout
	"57014": waited,   // query_canceled: statement_timeout
	"57P03": down,     // cannot_connect_now
	"BL007": paused,   // unless_paused()
}

var byClass = map[string]verdict{
	"08": broken,  // connection exception; 08007 leaves the transaction unknown
	"0A": schema,  // feature not supported
	"21": schema,  // cardinality violation: a key twice in one batch, which would be our own mistake
	"22": refused, // data exception: out of range, NUL byte, bad UTF-8
	"23": refused, // integrity constraint violation
	"25": busy,    // invalid transaction state: rolled back
	"28": down,    // invalid authorization
	"38": schema,  // external routine exception: a function that is not ours
	"39": schema,  // external routine invocation exception
	"3D": down,    // invalid catalog name: no such database
	"3F": schema,  // invalid schema name
	"40": busy,    // transaction rollback
	"42": schema,  // syntax error, undefined table or column, no privilege
	"44": schema,  // WITH CHECK OPTION: the table is somebody's view
	"53": down,    // disk full, out of memory
	"54": down,    // program limit exceeded: stack depth, too complex
	"55": down,    // object not in prerequisite state
	"57": broken,  // operator intervention: the session was ended
	"58": broken,  // system error
	"BL": guarded, // our guard triggers
	"F0": down,    // configuration file error
	"HV": schema,  // foreign data wrapper: the table is somewhere else
	"P0": schema,  // PL/pgSQL: a trigger that is not ours raises an error
	"XX": broken,  // internal error, corrupted data or index
}

// classify is the table of Postgres' and pgx's failures.
func classify(err error, p phase) verdict {
	pe, fromServer := errors.AsType[*pgconn.PgError](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, scanning := errors.AsType[pgx.ScanArgError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return leaving
	case errors.Is(err, pgconn.ErrReadOnlyConnection): // every address leads to a replica
		return readOnly
	case fromServer && (connecting || p == acquiring):
		return whileConnecting(pe.Code)
	case fromServer:
		return bySQLState(pe.Code)
	case connecting:
		return down
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return busy
	case scanning: // the columns are not those that we know
		return schema
	case p == acquiring && errors.Is(err, context.DeadlineExceeded):
		return waited
	case p == acquiring:
		return down
	case pgconn.SafeToRetry(err):
		return verdict{reason: failure.DatabaseDown, again: true}
	case p == unsent: // the same arguments are encoded for every order, so this is our own mistake
		return schema
	case pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded): // the server's own limits are shorter: it is not there
		return verdict{reason: failure.DatabaseDown, doubt: true}
	}
	return broken // the connection broke under the statement
}

// whileConnecting knows that nothing was sent yet. A server without a free place is busy; one that refuses us is down for
// us, whatever its reason.
func whileConnecting(code string) verdict {
	switch v := bySQLState(code); v.reason {
	case failure.DatabaseBusy, failure.DatabaseReadOnly:
		return v
	}
	return down
}

func bySQLState(code string) verdict {
	if v, ok := byCode[code]; ok {
		return v
	}
	if len(code) == 5 {
		if v, ok := byClass[code[:2]]; ok {
			return v
		}
	}
	return broken // nobody knows what it means, so it is nobody's fault but the database's
}

// isLockWait reports whether the statement waited in vain, which one row of a batch alone can be the reason for.
func isLockWait(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == "55P03" || pe.Code == "40P01" || pe.Code == "57014")
}

// isRefusal reports whether the database refused a row, as opposed to the whole statement.
func isRefusal(err error) bool {
	f, ok := errors.AsType[*failure.Error](err)
	return ok && f.Reason == failure.DatabaseRefused
}
