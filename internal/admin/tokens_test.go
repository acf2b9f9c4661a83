package admin_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/admin"
)

func TestParseTokens(t *testing.T) {
	none, err := admin.ParseTokens("  ")
	require.NoError(t, err)
	require.Empty(t, none)

	good, err := admin.ParseTokens("alice:operator:0123456789abcdef, bob@ops:viewer:0123:456789abcdef")
	require.NoError(t, err)
	require.Equal(t, []string{"alice", "bob@ops"}, []string{good[0].Name, good[1].Name})
	require.Equal(t, []admin.Role{admin.Operator, admin.Viewer}, []admin.Role{good[0].Role, good[1].Role})

	for text, want := range map[string]string{
		"alice":                                                    "want name:role:token",
		"alice:operator":                                           "want name:role:token",
		":operator:0123456789abcdef":                               "the name must be",
		"al ice:operator:0123456789abcdef":                         "the name must be",
		"al\nice:operator:0123456789abcdef":                        "the name must be",
		"alice:root:0123456789abcdef":                              `has no role viewer, operator or approver`,
		"alice:none:0123456789abcdef":                              `has no role`,
		"alice:operator:0123456789abcde":                           "shorter than 16",
		"alice:operator:0123456789 abcdef":                         "not visible ASCII",
		"a:viewer:0123456789abcdef,b:operator:0123456789abcdef":    `"a" and "b" have the same token`,
		"a:0123456789abcdef:viewer":                                "has no role",
		"a:viewer:0123456789abcdef,,":                              "admin token 2",
		"a:viewer:0123456789abcdef,a:viewer:" + "0123456789abcdeg": `the name "a" stands twice`,
	} {
		_, err := admin.ParseTokens(text)
		require.ErrorContains(t, err, want, "%q", text)
		require.NotContains(t, err.Error(), "0123456789", "a token must not stand in an error")
	}
}

// A token that a user may paste from here lets everyone in.
func TestTokensOfThisRepositoryAreRefused(t *testing.T) {
	pattern := regexp.MustCompile(`[A-Za-z0-9._@-]+:(?:viewer|operator|approver):([A-Za-z0-9:._/+=-]{16,})`)
	found := 0
	for name, text := range repositoryTexts(t) {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			secret := m[1]
			parsed, err := admin.ParseTokens("a:viewer:" + secret)
			require.NoError(t, err, "%s: %s", name, secret)
			require.ErrorContains(t, admin.RefusePublic(parsed), "make your own: openssl rand", "%s: %s is missing in publicTokens", name, secret)
			found++
		}
	}
	require.GreaterOrEqual(t, found, 5, "the search finds what is there")
	for _, secret := range []string{"demo-operator-token", "local-only-operator-token", viewer, operator} {
		parsed, err := admin.ParseTokens("a:viewer:" + secret)
		require.NoError(t, err)
		require.Error(t, admin.RefusePublic(parsed), secret)
		require.NotContains(t, admin.RefusePublic(parsed).Error(), secret)
	}
	own, err := admin.ParseTokens("a:viewer:" + strings.Repeat("5f0c7b9a", 4))
	require.NoError(t, err)
	require.NoError(t, admin.RefusePublic(own))
}

// repositoryTexts are the files that people read and copy from.
func repositoryTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS("../.."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".go", ".md", ".yml", ".yaml", ".json", ".sh"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		texts[path] = string(text)
		return err
	}))
	return texts
}
