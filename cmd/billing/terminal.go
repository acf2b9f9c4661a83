package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
)

// isTerminal tells whether a person is looking.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// table prints columns for people. A cell may hold what a stranger wrote into a message.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)} }

// row keeps an error of the writer until Flush.
func (t table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	fmt.Fprintln(t, strings.Join(cells, "\t"))
}

// printable keeps a text on its line and from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '.'
	}, s)
}

// printableJSON writes what could steer the terminal as an escape. In valid JSON it stands inside of strings, so that the
// value is the same for whoever reads it. What is below a space stands between them, or is an escape already.
func printableJSON(raw []byte) string {
	var b strings.Builder
	for _, r := range string(raw) {
		if r < ' ' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, half := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, half)
		}
	}
	return b.String()
}
