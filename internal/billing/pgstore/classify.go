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
}

var (
	busy     = verdict{reason: failure.DatabaseBusy, again: true}
	stuck    = verdict{reason: failure.DatabaseBusy} // waited long already
	down     = verdict{reason: failure.DatabaseDown}
	broken   = verdict{reason: failure.DatabaseDown, again: true, doubt: true} // this session is gone; the next may work
	readOnly = verdict{reason: failure.DatabaseReadOnly, reset: true}
	schema   = verdict{reason: failure.DatabaseSchema}
	refused  = verdict{reason: failure.DatabaseRefused}
	opinion  = verdict{reason: failure.Unclassified, again: true, doubt: true}
	paused   = verdict{reason: failure.OperatorPause}
	leaving  = verdict{reason: failure.ShuttingDown, doubt: true}
)

// byCode are the SQLSTATEs with a meaning of their own; byClass holds for the rest of their class (first two letters).
var byCode = map[string]verdict{
	"25006": readOnly,                                      // read_only_sql_transaction
	"53300": busy,                                          // too_many_connections
	"53400": busy,                                          // configuration_limit_exceeded
	"40001": busy,                                          // serialization_failure
	"40P01": busy,                                          // deadlock_detected
	"55P03": busy,                                          // lock_not_available: lock_timeout
	"57014": busy,                                          // query_canceled: statement_timeout
	"25P02": busy,                                          // in_failed_sql_transaction: rolled back
	"25P03": busy,                                          // idle_in_transaction_session_timeout: rolled back
	"40003": broken,                                        // statement_completion_unknown
	"0A000": {reason: failure.DatabaseSchema, again: true}, // feature_not_supported: a changed result type; pgx prepares anew
	"57P03": down,                                          // cannot_connect_now
	"P0001": refused,                                       // raise_exception
	"BL007": paused,                                        // unless_paused()
}

var byClass = map[string]verdict{
	"08": broken,  // connection exception; 08007 leaves the transaction unknown
	"21": refused, // cardinality violation: a key twice in one batch
	"22": refused, // data exception: out of range, NUL byte, bad UTF-8
	"23": refused, // integrity constraint violation
	"BL": refused, // our guard triggers
	"25": busy,    // invalid transaction state: rolled back
	"28": down,    // invalid authorization
	"3D": down,    // invalid catalog name: no such database
	"3F": schema,  // invalid schema name
	"40": busy,    // transaction rollback
	"42": schema,  // syntax error, undefined table or column, no privilege
	"53": down,    // disk full, out of memory
	"57": broken,  // operator intervention: the session was ended
	"58": broken,  // system error
	"XX": broken,  // internal error
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
		return stuck
	case p == acquiring:
		return down
	case pgconn.SafeToRetry(err):
		return verdict{reason: failure.DatabaseDown, again: true}
	case p == unsent:
		return refused
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
	return opinion
}

// isRefusal reports whether the database refused a row, as opposed to the whole statement.
func isRefusal(err error) bool {
	f, ok := errors.AsType[*failure.Error](err)
	return ok && f.Reason == failure.DatabaseRefused
}
