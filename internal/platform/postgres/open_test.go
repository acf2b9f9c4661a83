package postgres

import (
	"bytes"

	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/testkit"
)

// signalLog tells of the first line.
type signalLog struct {
	mu   sync.Mutex
	text bytes.Buffer
	said chan struct{}
	once sync.Once
}

func (l *signalLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.once.Do(func() { close(l.said) })
	return l.text.Write(line)
}

// The server comes a little later than we do, as after a restart of everything.
func TestOpenWaitsForTheServer(t *testing.T) {
	server, err := url.Parse(testkit.Postgres(t).URL)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	upstream := server.Host
	server.Host = address

	log := &signalLog{said: make(chan struct{})}
	opened := make(chan error, 1)
	delayed := withParam(t, server.String(), "sslmode", "disable")
	go func() {
		pool, err := Open(t.Context(), Config{URL: delayed, MaxConns: 1, Wait: time.Minute, Log: slog.New(slog.NewTextHandler(log, nil))})
		if err == nil {
			pool.Close()
		}
		opened <- err
	}()
	testkit.Receive(t, log.said, "it says that it waits")
	listener, err = net.Listen("tcp", address)
	require.NoError(t, err)
	defer listener.Close()
	go forward(listener, upstream)
	require.NoError(t, testkit.Receive(t, opened, "opened"))
	require.Contains(t, log.text.String(), "the database is not there yet")
}

func forward(listener net.Listener, upstream string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", upstream)
		if err != nil {
			client.Close()
			continue
		}
		go func() { _, _ = io.Copy(server, client); server.Close() }()
		go func() { _, _ = io.Copy(client, server); client.Close() }()
	}
}

// What does not pass by itself is told at once.
func TestOpenDoesNotWaitForWhatIsRefused(t *testing.T) {
	good := testkit.Postgres(t).URL
	u, err := url.Parse(good)
	require.NoError(t, err)
	u.Path = "/no_such_database"
	for name, c := range map[string]struct{ address, want string }{
		"unknown database": {u.String(), "no such database"},
		"unknown account":  {withParam(t, good, "user", "nobody_of_that_name"), "SQLSTATE 28"},
		"no TLS":           {withParam(t, good, "sslmode", "require"), "no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := Open(t.Context(), Config{URL: c.address, MaxConns: 1, Wait: time.Minute, Log: slog.New(slog.DiscardHandler)})
			require.ErrorContains(t, err, c.want)
			require.Less(t, time.Since(began), 30*time.Second)
		})
	}
}

// A pooler that ignores our start-up parameters gives sessions without limits; one that does not know them refuses.
func TestOpenRefusesAPooler(t *testing.T) {
	db := testkit.Postgres(t) // its sessions were opened without our settings, as those behind a pooler are
	err := refusePooler(t.Context(), db.Pool)
	require.ErrorIs(t, err, errPooler)
	require.ErrorContains(t, err, "lock_timeout, plan_cache_mode, statement_timeout")
	unknown := &pgconn.PgError{Code: "08P01", Message: "unsupported startup parameter: lock_timeout"}
	require.True(t, refuses(unknown))
	require.ErrorContains(t, &openError{unknown}, "PgBouncer")
}

// A full URL names one database, whatever else stands in the environment.
func TestStrayVariablesChangeNothing(t *testing.T) {
	address := testkit.Postgres(t).URL
	for name, value := range map[string]string{
		"PGHOST": "elsewhere.invalid", "PGPORT": "1", "PGUSER": "nobody", "PGDATABASE": "other", "PGPASSWORD": "s3cret", "PGSSLMODE": "verify-full",
		"PGSSLROOTCERT": "/no/such/ca.pem", "PGSERVICE": "other", "PGSERVICEFILE": "/no/such/file", "PGPASSFILE": "/no/such/pass",
		"PGOPTIONS": "-c default_transaction_read_only=on", "PGTARGETSESSIONATTRS": "standby", "PGCONNECT_TIMEOUT": "nonsense", "PGAPPNAME": "stray",
		"PGTZ": "Europe/Paris", "PGREQUIREAUTH": "none",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			pool, err := Open(t.Context(), Config{URL: address, MaxConns: 1})
			require.NoError(t, err)
			defer pool.Close()
			for setting, want := range map[string]string{"application_name": "billing", "timezone": "UTC", "default_transaction_read_only": "off"} {
				var got string
				require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_setting($1)`, setting).Scan(&got))
				require.Equal(t, want, got, setting)
			}
		})
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "ca.pem")
	_, err := Open(t.Context(), Config{URL: "postgres://u:s3cret@127.0.0.1/db?sslmode=verify-full&sslrootcert=" + missing, MaxConns: 1})
	require.ErrorContains(t, err, missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotContains(t, err.Error(), "s3cret")
}

// Wherever a password stands, also where it does not belong.
func TestOpenNeverShowsAPassword(t *testing.T) {
	for _, address := range []string{
		"postgres://u:s3cret@127.0.0.1:1/db", "postgres://127.0.0.1:1/db?user=u&password=s3cret", "host=127.0.0.1 port=1 user=u password=s3cret dbname=db",
		"host=127.0.0.1 port=1 user=u password='s3cret", "postgres://u:s3cret@host:port/db", "postgres://u:s3cret/rest@127.0.0.1/db",
		"postgres://127.0.0.1:1/s3cret@127.0.0.1/db", "host=127.0.0.1 port=1 dbname=s3cret", "postgres://u:p@127.0.0.1:1/db?sslpassword=s3cret",
		"mysql://u:s3cret@127.0.0.1/db", "password=s3cret port=x", "postgres://127.0.0.1:1/db?password=s3cret&target_session_attrs=s3cret",
	} {
		_, err := Open(t.Context(), Config{URL: address, MaxConns: 1})
		require.Error(t, err, address)
		require.NotContains(t, err.Error(), "s3cret", address)
		_, err = Migrate(t.Context(), address, os.DirFS("../../../migrations"))
		require.Error(t, err, address)
		require.NotContains(t, err.Error(), "s3cret", address)
	}
}
