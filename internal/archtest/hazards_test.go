package archtest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const hazardsPage = "docs/hazards.md"

var (
	hazardID    = regexp.MustCompile(`\bH[1-9][0-9]?\b`)
	hazardEntry = regexp.MustCompile(`(?m)^### (H[1-9][0-9]?) `)
	testName    = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	testFunc    = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// Whoever meets an id in a comment must find it on the page of hazards.
func TestEveryHazardHasItsEntry(t *testing.T) {
	entries := hazardEntries(t)
	referred := 0
	for name, text := range texts(t, ".go", ".md", ".sql", ".pml", "") {
		if name == hazardsPage {
			continue
		}
		for _, id := range hazardID.FindAllString(text, -1) {
			referred++
			if entries[id] == "" {
				t.Errorf("%s refers to %s, which has no entry in %s", name, id, hazardsPage)
			}
		}
	}
	require.Greater(t, referred, 100, "the search finds the references")
}

// An entry that names a test which was renamed or deleted proves nothing.
func TestEveryHazardNamesItsTests(t *testing.T) {
	var tests []string
	for name, text := range texts(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			tests = append(tests, firstGroups(testFunc, text)...)
		}
	}
	require.NotEmpty(t, tests)
	for id, entry := range hazardEntries(t) {
		require.Contains(t, entry, "\n- Sequence: ", id)
		require.Contains(t, entry, "\n- Rule: ", id)
		names := firstGroups(testName, entry)
		if len(names) == 0 {
			t.Errorf("%s: %s names no test", hazardsPage, id)
		}
		for _, name := range names {
			if !slices.Contains(tests, name) {
				t.Errorf("%s: %s names %s, which does not exist", hazardsPage, id, name)
			}
		}
	}
}

func hazardEntries(t *testing.T) map[string]string {
	page, err := fs.ReadFile(os.DirFS("../.."), hazardsPage)
	require.NoError(t, err)
	text, entries := string(page), map[string]string{}
	starts := hazardEntry.FindAllStringSubmatchIndex(text, -1)
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		id := text[start[2]:start[3]]
		require.Empty(t, entries[id], "%s has two entries", id)
		entries[id] = text[start[0]:end]
	}
	require.NotEmpty(t, entries)
	return entries
}

func firstGroups(pattern *regexp.Regexp, text string) (found []string) {
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// texts are the files of the repository whose names end so; "" is a script without an ending.
func texts(t *testing.T, endings ...string) map[string]string {
	root, found := os.DirFS("../.."), map[string]string{}
	err := fs.WalkDir(root, ".", func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (p == "bin" || (p != "." && strings.HasPrefix(entry.Name(), "."))):
			return fs.SkipDir
		case entry.IsDir() || !slices.Contains(endings, path.Ext(p)):
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if !slices.Contains(text, 0) { // not a program that somebody built here
			found[p] = string(text)
		}
		return err
	})
	require.NoError(t, err)
	return found
}
