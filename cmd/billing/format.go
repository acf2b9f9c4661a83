package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

// format is what -o asks for.
type format string

const (
	asTable format = "table" // for people
	asJSON  format = "json"  // for scripts
)

// flag adds -o; a table is the default.
func (f *format) flag(fs *pflag.FlagSet) {
	*f = asTable
	fs.VarP(f, "output", "o", "table or json")
}

func (f *format) String() string { return string(*f) }

// Type is what -h shows for the value.
func (*format) Type() string { return "format" }

// Set refuses everything else.
func (f *format) Set(text string) error {
	if format(text) != asTable && format(text) != asJSON {
		return errors.New("want table or json")
	}
	*f = format(text)
	return nil
}

// show writes the report as JSON, or calls table. Neither steers a terminal, whatever a stranger wrote into a message or a
// provider into an answer.
func (f *format) show(w io.Writer, report any, table func(io.Writer) error) error {
	if *f == asTable {
		return table(w)
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	_, err = fmt.Fprintln(w, printableJSON(text))
	return err
}
