package postgres

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	embedded "github.com/fergusstrange/embedded-postgres"
)

const (
	version  = embedded.V18
	user     = "billing"
	password = "billing" // the server listens on the loopback address only
	database = "billing"
)

// installation is PostgreSQL in the cache: its binaries, and a data directory of a server that was initialised once.
// Copying that one takes a tenth of the time of initdb.
type installation struct{ binaries, template string }

func (i installation) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(i.binaries, "bin", name), args...)
}

// install finds PostgreSQL in the cache or puts it there. Processes that start together wait for the first one.
func install(ctx context.Context, log *slog.Logger) (installation, error) {
	cache, err := cacheDir()
	if err != nil {
		return installation{}, fmt.Errorf("find a cache directory for PostgreSQL: %w", err)
	}
	cache = filepath.Join(cache, "postgres-"+string(version))
	found := installation{binaries: filepath.Join(cache, "installed"), template: filepath.Join(cache, "template")}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return found, fmt.Errorf("make the cache directory of PostgreSQL: %w", err)
	}
	if err := giveAway(cache); err != nil {
		return found, fmt.Errorf("make the cache directory of PostgreSQL: %w", err)
	}
	unlock, err := waitLock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return found, err
	}
	defer unlock.Close()
	if _, err := os.Stat(found.template); err == nil {
		return found, nil
	}
	log.Info("downloading PostgreSQL "+string(version)+", once", "into", cache)
	downloaded := make(chan error, 1)
	go func() { downloaded <- unprivileged(func() error { return download(ctx, cache, found) }) }()
	select {
	case err = <-downloaded:
	case <-ctx.Done(): // the library cannot be interrupted; whoever cancels is about to exit
		err = ctx.Err()
	}
	if err != nil {
		return found, fmt.Errorf("get PostgreSQL %s: %w", version, err)
	}
	return found, nil
}

// download lets the library fetch, check and unpack the binaries, initialise a server and start it once. The template
// gets its name last: what stands there is complete.
func download(ctx context.Context, cache string, to installation) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	half := to.template + ".new"
	var output bytes.Buffer
	library := embedded.NewDatabase(embedded.DefaultConfig().
		Version(version).
		CachePath(filepath.Join(cache, "archive")).
		BinariesPath(to.binaries).
		RuntimePath(filepath.Join(cache, "run")).
		DataPath(half).
		Port(uint32(port)).
		Username(user).Password(password).Database(database).
		Encoding("UTF8").Locale("C").
		StartParameters(map[string]string{"listen_addresses": "127.0.0.1", "unix_socket_directories": ""}).
		Logger(&output))
	if err := library.Start(); err != nil {
		return fmt.Errorf("%w\n%s", err, output.Bytes())
	}
	if err := library.Stop(); err != nil {
		return fmt.Errorf("stop it again: %w\n%s", err, output.Bytes())
	}
	return os.Rename(half, to.template)
}
