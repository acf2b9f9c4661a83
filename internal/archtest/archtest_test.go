package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module  = "example.com/billing/"
	testkit = "internal/testkit"
)

// source is one Go file of this module, whatever its build tags.
type source struct {
	path    string // from the root of the repository
	test    bool
	lines   int
	code    int // lines without comments and blank ones
	imports []string
}

func (s source) folder() string { return path.Dir(s.path) }

func TestImportsGoDownOnly(t *testing.T) {
	for _, file := range sources(t) {
		from := room(file.folder())
		if from == "" {
			t.Errorf("%s: %s has no line in rooms", file.path, file.folder())
			continue
		}
		for _, imported := range file.imports {
			to, inside := strings.CutPrefix(imported, module)
			if inside && !file.test && !mayImport(from, file.folder(), to) {
				t.Errorf("%s: %s must not import %s", file.path, from, to)
			}
		}
	}
}

// The rules must be able to fail.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		folder, imported string
		allowed          bool
	}{
		{"internal/orders", "internal/billing", true},
		{"internal/orders", "internal/billing/pgstore", false},
		{"internal/billing", "internal/orders", false},
		{"internal/billing", "internal/billing/pgstore", false},
		{"internal/billing/pgstore", "internal/billing", true},
		{"internal/billing/pgstore", "internal/billing/httpprovider", false},
		{"internal/retry", "internal/billing", false},
		{"internal/platform/kafkaclient", "internal/failure", false},
		{"internal/platform/kafkaclient", "internal/platform/postgres", false},
		{"internal/demo/loadgen", "internal/demo/broker", true},
		{"internal/demo/loadgen", "internal/orders", false},
		{"internal/admin", "internal/admin/page", true},
		{"cmd/billing", "internal/billing/pgstore", true},
		{"cmd/billing", "internal/testkit", false},
	} {
		require.Equal(t, c.allowed, mayImport(room(c.folder), c.folder, c.imported), "%s imports %s", c.folder, c.imported)
	}
	require.Empty(t, room("internal/newcomer"))
}

// Tests may reach further down than the code they test, for a real database say, but never up into the wiring.
func TestOnlyTestsImportTheTestkit(t *testing.T) {
	for _, file := range sources(t) {
		for _, imported := range file.imports {
			switch strings.TrimPrefix(imported, module) {
			case testkit:
				if !file.test {
					t.Errorf("%s: only tests import %s", file.path, testkit)
				}
			case "cmd/billing":
				t.Errorf("%s: nothing imports cmd/billing", file.path)
			}
		}
	}
}

func TestLibrariesHaveOneDoor(t *testing.T) {
	for _, file := range sources(t) {
		for _, imported := range file.imports {
			for library, folders := range doors {
				if !within(imported, library) || (file.test && testMayImport(library)) {
					continue
				}
				if !slices.ContainsFunc(folders, func(f string) bool { return within(file.folder(), f) }) {
					t.Errorf("%s: %s is imported only by %s", file.path, library, strings.Join(folders, ", "))
				}
			}
		}
	}
}

func TestTheCoreStaysSmall(t *testing.T) {
	lines, code := 0, 0
	for _, file := range sources(t) {
		if file.test {
			continue
		}
		if slices.Contains(story, file.folder()) {
			lines += file.lines
		}
		if slices.Contains(core, file.folder()) {
			code += file.code
		}
	}
	t.Logf("%d lines in %s; %d lines of code in %s", lines, strings.Join(story, ", "), code, strings.Join(core, ", "))
	require.Positive(t, lines)
	require.LessOrEqual(t, lines, maxStoryLines)
	require.LessOrEqual(t, code, maxCoreLines)
}

func TestAFileIsOneIdea(t *testing.T) {
	for _, file := range sources(t) {
		if !file.test && file.lines > maxFileLines {
			t.Errorf("%s has %d lines, more than %d", file.path, file.lines, maxFileLines)
		}
	}
}

// testMayImport: a test asserts with testify, and reads topics with the client that is not under test.
func testMayImport(library string) bool {
	return library == "github.com/stretchr/testify" || library == "github.com/twmb/franz-go" || library == "go.uber.org/goleak"
}

func mayImport(from, folder, to string) bool {
	if within(to, folder) && room(to) == from {
		return true // a room's own subfolders
	}
	return slices.ContainsFunc(rooms[from], func(allowed string) bool {
		// "internal" allows every room in it, "internal/billing" that room alone.
		return room(to) == allowed || (allowed == "internal" && within(to, allowed) && to != testkit)
	})
}

// room is the longest folder in rooms that holds the given one.
func room(folder string) string {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, ok := rooms[folder]; ok {
			return folder
		}
	}
	return ""
}

func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

func sources(t *testing.T) []source {
	root := os.DirFS("../..")
	var found []source
	err := fs.WalkDir(root, ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && p != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if entry.IsDir() || path.Ext(p) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		file, err := parse(p, text)
		found = append(found, file)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

func parse(p string, text []byte) (source, error) {
	file := source{path: p, test: strings.HasSuffix(p, "_test.go")}
	for line := range strings.Lines(string(text)) {
		file.lines++
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			file.code++
		}
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), p, text, parser.ImportsOnly)
	if err != nil {
		return file, err
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file, err
		}
		file.imports = append(file.imports, imported)
	}
	return file, nil
}
