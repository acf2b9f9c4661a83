package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every command that has -o refuses the same, before it does anything.
func TestOutputIsTableOrJSON(t *testing.T) {
	for _, args := range [][]string{{"balance"}, {"reconcile"}, {"dlq", "list"}, {"dlq", "show", "0/0"}, {"dlq", "replay", "--all"}} {
		root := newRootCommand()
		root.SetArgs(append(args, "-o", "xml"))
		err := root.ExecuteContext(t.Context())
		require.ErrorContains(t, err, "want table or json", args)
		require.Equal(t, exitUsage, exitCode(err))
	}
}

// What a stranger or a provider wrote steers no terminal, and is the same value for a script.
func TestJSONSteersNoTerminal(t *testing.T) {
	text := "ch_1\x1b[2J\u009b2J\u202egnp.exe"
	output := asJSON
	for _, report := range []any{map[string]string{"there": text}, json.RawMessage(`{"there":"ch_1\u001b[2J` + "\u009b2J\u202egnp.exe" + `"}`)} {
		var out bytes.Buffer
		require.NoError(t, output.show(&out, report, nil))
		require.NotContains(t, out.String(), "\u009b")
		require.NotContains(t, out.String(), "\u202e")
		var read map[string]string
		require.NoError(t, json.Unmarshal(out.Bytes(), &read))
		require.Equal(t, text, read["there"])
	}
}
