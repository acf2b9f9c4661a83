package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
)

// forgetfulSQL finds settings of our sessions under which what we rely on does not hold. The first two can only come from
// the URL, since the session settings go before all else. The last one belongs to superusers: it can be set for the account
// or the database, and we may not set it back.
const forgetfulSQL = `
SELECT name || '=' || setting FROM pg_settings
 WHERE name = 'synchronous_commit' AND setting = 'off'
    OR name = 'default_transaction_isolation' AND setting <> 'read committed'
    OR name = 'session_replication_role' AND setting = 'replica'
 ORDER BY name`

// remedies tell what is wrong with a setting and how to mend it.
var remedies = map[string]string{
	"synchronous_commit":            "a crash of the server would forget charges; take it out of the database URL",
	"default_transaction_isolation": "the statements are written for \"read committed\"; take it out of the database URL",
	"session_replication_role": "triggers that protect charges do not run; ALTER ROLE … RESET session_replication_role, the same for " +
		"the database, and take it out of the URL",
}

// refuseForgetful refuses sessions that may forget a charge or let it be overwritten.
func refuseForgetful(ctx context.Context, db querier) error {
	found, err := readNames(ctx, db, forgetfulSQL)
	if err != nil || len(found) == 0 {
		return err
	}
	for i, setting := range found {
		name, _, _ := strings.Cut(setting, "=")
		found[i] += ": " + remedies[name]
	}
	return fmt.Errorf("the sessions are not safe: %s", strings.Join(found, "; "))
}

// WarnUnsynced tells of settings of the server under which it may lose what it has committed when its machine crashes. They
// are not refused: some services and file systems keep what they have acknowledged by other means, and run so.
func WarnUnsynced(ctx context.Context, db querier, log *slog.Logger) error {
	found, err := readNames(ctx, db, `
		SELECT name || '=off' FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name`)
	if err != nil {
		return fmt.Errorf("read the settings of the database server: %w", err)
	}
	if len(found) > 0 {
		log.Warn("the database server may forget charges when its machine crashes: turn these on, unless its storage keeps "+
			"by other means what is committed", "settings", strings.Join(found, " "))
	}
	return nil
}

// readNames prepares nothing, which a pooler might trip over.
func readNames(ctx context.Context, db querier, sql string, args ...any) ([]string, error) {
	rows, err := db.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
