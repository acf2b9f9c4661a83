package archtest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const maxDocumentRow = 120 // characters

// Documents are read in terminals and in diffs.
func TestDocumentsHaveShortLines(t *testing.T) {
	for name, text := range texts(t, ".md") {
		for _, n := range longRows(text) {
			t.Errorf("%s:%d is longer than %d characters", name, n, maxDocumentRow)
		}
	}
}

// The rule must be able to fail, and must leave alone what cannot be broken.
func TestLongRows(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for text, want := range map[string][]int{
		long:                         {1},
		"short\n- " + long:           {2},
		"| " + long + "|":            nil,
		"```\n" + long + "\n```":     nil,
		strings.Repeat("x", 200):     nil, // a long link or literal
		"```\n```\n" + long:          {3},
		strings.Repeat("äöü ", 30):   nil, // characters count, not bytes
		"> " + long + "\n\n" + long:  {1, 3},
		"- [x](" + long[:20] + ")\n": nil,
	} {
		require.Equal(t, want, longRows(text), text)
	}
}

// longRows numbers the lines of a document that are too long and could be broken. Tables and code are as they are.
func longRows(text string) (rows []int) {
	code, n := false, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if !code && !strings.HasPrefix(line, "|") && utf8.RuneCountInString(line) > maxDocumentRow && strings.Contains(line, " ") {
			rows = append(rows, n)
		}
	}
	return rows
}
