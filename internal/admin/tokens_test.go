package admin_test

import (
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
		"alice:root:0123456789abcdef":                              `has role "root", want viewer, operator or approver`,
		"alice:none:0123456789abcdef":                              `has role "none"`,
		"alice:operator:0123456789abcde":                           "shorter than 16",
		"alice:operator:0123456789 abcdef":                         "not visible ASCII",
		"a:viewer:0123456789abcdef,,":                              "admin token 2",
		"a:viewer:0123456789abcdef,a:viewer:" + "0123456789abcdeg": `the name "a" stands twice`,
	} {
		_, err := admin.ParseTokens(text)
		require.ErrorContains(t, err, want, "%q", text)
		require.NotContains(t, err.Error(), "0123456789", "a token must not stand in an error")
	}
}

func TestTheDemoTokenIsRefusedOutsideTheDemo(t *testing.T) {
	w := newWorld(t)
	var err error
	w.cfg.Tokens, err = admin.ParseTokens("demo:operator:demo-operator-token")
	require.NoError(t, err)
	_, err = admin.New(w.cfg, w.deps)
	require.ErrorContains(t, err, "openssl rand")

	w.cfg.AllowDemoToken = true
	w.serve()
	require.Equal(t, 200, w.call("demo-operator-token", "GET", "/admin/dlq", "").status)
}
