// Package telemetry makes the logger and the metrics. It knows the names that dashboards and alerts depend on, and nothing
// of what happens between them.
package telemetry

import (
	"io"
	"log/slog"
)

// NewLogger makes a logger that writes one line per decision. Payloads, keys and tokens are never given to it.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return slog.New(slog.NewJSONHandler(w, options)), nil
}
