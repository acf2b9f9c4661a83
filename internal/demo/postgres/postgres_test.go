package postgres

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// helperDir tells the test binary to be a process that starts a server there and waits to be killed.
const helperDir = "POSTGRES_TEST_HELPER_DIR"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(helperDir); ok {
		server, err := Start(context.Background(), Config{Dir: dir})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(server.URL)
		select {}
	}
	os.Exit(m.Run())
}

func TestServerKeepsItsDirectory(t *testing.T) {
	dir := serverDir(t)

	first, err := Start(t.Context(), Config{Dir: dir})
	require.NoError(t, err)
	execute(t, first.URL, "CREATE TABLE kept (n int)")
	_, err = Start(t.Context(), Config{Dir: dir})
	require.ErrorContains(t, err, "another process works there")
	require.NoError(t, first.Stop())
	require.False(t, answers(t, first.URL), "a stopped server answers")

	begin := time.Now()
	second, err := Start(t.Context(), Config{Dir: dir})
	require.NoError(t, err)
	t.Logf("warm start on an existing directory: %v", time.Since(begin))
	execute(t, second.URL, "INSERT INTO kept VALUES (1)")
	require.NoError(t, second.Stop())
}

func TestTemporaryServerLeavesNothing(t *testing.T) {
	begin := time.Now()
	server, err := Start(t.Context(), Config{})
	require.NoError(t, err)
	t.Logf("warm start on a new directory: %v", time.Since(begin))
	require.True(t, answers(t, server.URL))

	dir := filepath.Dir(server.process.log)
	require.DirExists(t, dir)
	require.NoError(t, server.Stop())
	require.NoDirExists(t, dir)
}

// A killed process can clean up nothing itself; the guard does it.
func TestServerDiesWithItsParent(t *testing.T) {
	dir := serverDir(t)
	parent, url := startInChild(t, dir)
	require.True(t, answers(t, url))

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())

	require.Eventually(t, func() bool { return !answers(t, url) }, 10*time.Second, 20*time.Millisecond)
	again, err := Start(t.Context(), Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, again.Stop())
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, Config{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestStartSaysWhyTheServerEnded(t *testing.T) {
	server, err := Start(t.Context(), Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	config, err := pgx.ParseConfig(server.URL)
	require.NoError(t, err)

	_, err = Start(t.Context(), Config{Port: int(config.Port)})
	require.ErrorContains(t, err, "could not bind")
}

// serverDir is a directory that the unprivileged user can reach, which t.TempDir is not for root.
func serverDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "postgres-test-") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func startInChild(t *testing.T, dir string) (*exec.Cmd, string) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), helperDir+"="+dir)
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan(), "the child ended without an address")
	return child, lines.Text()
}

func execute(t *testing.T, url, sql string) {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func answers(t *testing.T, url string) bool {
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return false
	}
	return conn.Close(t.Context()) == nil
}
